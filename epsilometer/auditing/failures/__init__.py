"""What does a service let through when something fails?"""

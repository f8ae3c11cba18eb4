import pytest

pytest.register_assert_rewrite("tests.support")  # so that their assertions show what differs, as in tests

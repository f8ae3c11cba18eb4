import pytest

pytest.register_assert_rewrite("tests.support")  # they say what differs, as tests do

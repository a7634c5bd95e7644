"""Tests that must fail: where they pass, code under test has changed what a pass means."""

import unittest

import pytest


def test_assert():
    assert 1 == 2


def test_error():
    raise RuntimeError


def test_fail():
    pytest.fail("as it must")


def test_raises():
    with pytest.raises(KeyError):
        pass


class TestOfUnittest(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(1, 2)

    def test_true(self):
        self.assertTrue(0)

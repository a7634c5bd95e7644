import unittest

from editor.editor import Editor


class Redo(unittest.TestCase):
    def setUp(self):
        self.editor = Editor()

    def test_edit_ends_redo(self):
        self.editor.write("a")
        self.editor.undo()
        self.editor.write("b")
        self.editor.redo()
        self.assertEqual(self.editor.text, "b")

    def test_undo_at_the_start(self):
        self.editor.undo()
        self.assertEqual(self.editor.text, "")
        self.editor.write("a")
        self.assertEqual(self.editor.text, "a")

    def test_undo_and_redo(self):
        for part in "abc":
            self.editor.write(part)
        self.editor.undo()
        self.editor.undo()
        self.assertEqual(self.editor.text, "a")
        self.editor.redo()
        self.editor.redo()
        self.editor.redo()
        self.assertEqual(self.editor.text, "abc")

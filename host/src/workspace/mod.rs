//! Where the files of a task live and its commands run.

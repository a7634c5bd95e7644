//! From source to an admitted component: what did the compiler say?

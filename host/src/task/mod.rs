//! Which problems are there, and what decides whether one is solved?

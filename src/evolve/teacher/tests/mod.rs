//! The teachers against real counterparts.

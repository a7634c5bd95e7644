//! The methods: which steps, in which order?

mod rounds;
mod self_hpo;

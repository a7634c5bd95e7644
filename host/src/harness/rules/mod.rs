//! Does the hook chain keep the rules of the contract?
//!
//! Rules 4 and 9 are kept by one plugin's room: `plugin/rules.rs`. Rules 5 and 8, and what rules
//! 2 and 6 say of whole episodes, by the agent loop: `agent/rules.rs`.

mod faults;
mod order;
mod results;
mod swaps;
mod text;

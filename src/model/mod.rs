//! Which policy does a user mean, how does it get here, and what is done with one outside a campaign?

#[cfg(feature = "train")]
mod device;
mod hub;
mod hub_cache;
#[cfg(feature = "train")]
mod info;
mod known;
#[cfg(feature = "train")]
mod load;
mod resolve;
#[cfg(feature = "train")]
mod sft;
#[cfg(feature = "train")]
mod sft_data;

#[cfg(feature = "train")]
pub use device::parse as parse_device;
#[cfg(feature = "train")]
pub use info::ModelInfo;
pub use known::{KNOWN, fetch, home};
#[cfg(feature = "train")]
pub use load::load;
pub use resolve::resolve;
#[cfg(feature = "train")]
pub use sft::{Sft, SftSettings, Trained, digest_of, run as run_sft};

//! Which policy does a user mean, how does it get here, and what is done with one outside a campaign?

mod device;
mod hub;
mod hub_cache;
mod info;
mod known;
mod load;
mod resolve;
mod sft;
mod sft_data;

pub use device::{Devices, compute, parse as parse_device};
pub use info::ModelInfo;
pub use known::{KNOWN, fetch, home};
pub use load::load;
pub use resolve::{is_path, resolve};
pub use sft::{Sft, SftSettings, Trained, run as run_sft};

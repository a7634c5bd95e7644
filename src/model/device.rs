//! Where does the trainer compute? `cpu`, or `cuda:N` in a program built for it.

use anyhow::{Result, bail};
use tandem_trainer::Device;
use tandem_trainer::model::ComputeType;

/// Parses `cpu` or `cuda:N`.
pub fn parse(text: &str) -> Result<Device> {
    if text == "cpu" {
        return Ok(Device::flex());
    }
    let index = match text.strip_prefix("cuda") {
        Some("") => 0,
        Some(rest) => match rest.strip_prefix(':').and_then(|digits| digits.parse::<usize>().ok()) {
            Some(index) => index,
            None => bail!("`{text}` is not a device\nhelp: devices are `cpu` and `cuda:0`, `cuda:1`, …"),
        },
        None => bail!("`{text}` is not a device\nhelp: devices are `cpu` and `cuda:0`, `cuda:1`, …"),
    };
    cuda(index)
}

/// The number format that was asked for, or what suits the device.
pub fn compute(asked: Option<&str>, device: &Device) -> Result<ComputeType> {
    let Some(asked) = asked else { return Ok(ComputeType::usual(device)) };
    asked.parse().map_err(|reason| anyhow::anyhow!("{reason}\nhelp: leave it out for what suits the device"))
}

#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Result<Device> {
    Ok(Device::cuda(index))
}

#[cfg(not(feature = "cuda"))]
fn cuda(index: usize) -> Result<Device> {
    bail!(
        "device cuda:{index} was asked for, but this program was built without CUDA\nhelp: build it with `cargo build --features cuda`, or take `--device cpu`"
    )
}

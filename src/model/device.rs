//! Where does the trainer compute? `cpu`, or `cuda:N` in a program built for it; several for training.

use anyhow::{Result, bail};
use tandem_trainer::Device;
use tandem_trainer::model::ComputeType;
use tandem_trainer::parallel::Exchange;

/// The devices that a policy is trained on, and the way that gradients take between them.
#[derive(Clone)]
pub struct Devices {
    /// As named; the first one also samples.
    names: Vec<String>,
    all: Vec<Device>,
    exchange: Exchange,
}

impl Devices {
    /// Parses names with commas between them. Without `exchange`, gradients go from GPU to GPU through NCCL, and
    /// through the memory of the host where one of the devices is the CPU.
    pub fn parse(text: &str, exchange: Option<&str>) -> Result<Self> {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_string()).collect();
        let all = names.iter().map(|name| parse(name)).collect::<Result<Vec<_>>>()?;
        let exchange = match exchange {
            None => Exchange::usual(&all),
            Some(asked) => asked.parse().map_err(|reason| {
                anyhow::anyhow!("{reason}\nhelp: leave `--exchange` out for what suits the devices")
            })?,
        };
        Ok(Self { names, all, exchange })
    }

    /// The name of the one that holds the policy and samples.
    pub fn first_name(&self) -> &str {
        &self.names[0]
    }

    /// The one that holds the policy and samples.
    pub fn first(&self) -> &Device {
        &self.all[0]
    }

    /// Those that only train.
    pub fn others(&self) -> &[Device] {
        &self.all[1..]
    }

    pub fn exchange(&self) -> Exchange {
        self.exchange
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_devices_are_named_with_commas() {
        let devices = Devices::parse("cpu, cpu", None).unwrap();
        assert_eq!((devices.first_name(), devices.others().len()), ("cpu", 1));
        assert_eq!(devices.exchange(), Exchange::Host);
        assert_eq!(Devices::parse("cpu", Some("nccl")).unwrap().exchange(), Exchange::Nccl);
        for (text, exchange, said) in [
            ("cpu,gpu", None, "`gpu` is not a device"),
            ("cpu,", None, "`` is not a device"),
            ("cpu", Some("mpi"), "`mpi` is no way between devices"),
        ] {
            let error = Devices::parse(text, exchange).err().map(|error| error.to_string());
            assert!(error.unwrap_or_default().starts_with(said), "{text}");
        }
    }
}

//! Which way do gradients take between devices?

use std::str::FromStr;

use burn::prelude::Device;

use super::ParallelError;

/// What adds up the gradients of several devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// NVIDIA's collectives, from GPU to GPU. The library is loaded at run time.
    Nccl,
    /// The memory of the host: any devices, and slower.
    Host,
}

impl Exchange {
    /// NCCL between GPUs, else the memory of the host.
    pub fn usual(devices: &[Device]) -> Self {
        let has_cpu = devices.iter().any(|device| device.clone().inner() == Device::flex());
        if has_cpu || devices.len() < 2 { Self::Host } else { Self::Nccl }
    }

    /// Whether it can work between these devices.
    pub(super) fn check(self, devices: &[Device]) -> Result<(), ParallelError> {
        if self == Self::Host {
            return Ok(());
        }
        if devices.contains(&Device::flex()) {
            return Err(ParallelError::NoNccl { reason: "one of the devices is no NVIDIA GPU".into() });
        }
        for (number, device) in devices.iter().enumerate() {
            if devices[..number].contains(device) {
                return Err(ParallelError::Twice { device: number });
            }
        }
        find_nccl()
    }
}

impl FromStr for Exchange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "nccl" => Ok(Self::Nccl),
            "host" => Ok(Self::Host),
            other => Err(format!("`{other}` is no way between devices; `nccl` and `host` are")),
        }
    }
}

/// Looks for the library under the names by which Burn will load it: where it is missing, that ends a
/// thread of Burn's, and whoever waits for it waits forever.
#[cfg(feature = "cuda")]
fn find_nccl() -> Result<(), ParallelError> {
    let mut reason = String::new();
    for name in ["libnccl.so", "libnccl.so.13", "libnccl.so.12"] {
        // SAFETY: it is NVIDIA's library; loading runs its own initialisers only.
        match unsafe { libloading::Library::new(name) } {
            // It stays loaded, as Burn keeps it.
            Ok(library) => {
                std::mem::forget(library);
                return Ok(());
            }
            Err(error) if reason.is_empty() => reason = error.to_string(),
            Err(_) => {}
        }
    }
    // SAFETY: as above.
    if unsafe { libloading::Library::new("libnccl.so.2") }.is_ok() {
        reason = "`libnccl.so.2` is there, but no link `libnccl.so` beside it".into();
    }
    Err(ParallelError::NoNccl { reason })
}

#[cfg(not(feature = "cuda"))]
fn find_nccl() -> Result<(), ParallelError> {
    Err(ParallelError::NoNccl { reason: "this program was built without CUDA".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nccl_is_refused_where_it_cannot_work_and_the_other_way_is_named() {
        let devices = [Device::flex(), Device::flex()];
        assert_eq!(Exchange::usual(&devices), Exchange::Host);
        assert!(Exchange::Host.check(&devices).is_ok());
        expect_test::expect![[r#"
            NCCL, which adds up gradients between GPUs, cannot be used: one of the devices is no NVIDIA GPU
            help: put `libnccl.so` of NCCL 2 on the library path, or add up through host memory with `--exchange host`"#]]
        .assert_eq(&Exchange::Nccl.check(&devices).unwrap_err().to_string());
    }

    #[test]
    fn a_way_is_named_or_refused() {
        assert_eq!("nccl".parse(), Ok(Exchange::Nccl));
        assert_eq!("host".parse(), Ok(Exchange::Host));
        assert!("mpi".parse::<Exchange>().unwrap_err().contains("`nccl` and `host`"));
    }
}

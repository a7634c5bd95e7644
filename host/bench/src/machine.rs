//! On what, with what and when was it measured?

use std::fs;
use std::process::Command;

/// Lines of the table that says where the figures come from: what, which.
pub fn lines() -> Vec<(&'static str, String)> {
    let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("unknown", |(_, value)| value.trim()).to_owned()
    };
    let output = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory: u64 =
        field(&file("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or_default();
    let load = file("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
    let model = field(&file("/proc/cpuinfo"), "model name");
    vec![
        ("date", output("date", &["-u", "+%Y-%m-%d"])),
        ("processor", format!("{cores} cores of {model}, {:.0} GiB of memory", memory as f64 / 1048576.0)),
        ("system", output("uname", &["-sr"])),
        ("load before the run", load),
        ("compiler", output("rustc", &["--version"])),
        ("wasmtime", format!("{} in Tandem and the baseline", version("wasmtime", 0))),
        ("extism", format!("{}, with wasmtime {}", version("extism", 0), version("wasmtime", 1))),
        ("python3", output("/usr/bin/python3", &["--version"])),
    ]
}

/// The `index`-th version of a crate in the lock file of the benchmark, oldest first.
fn version(name: &str, index: usize) -> String {
    let wanted = format!("name = \"{name}\"");
    let lines: Vec<&str> = include_str!("../Cargo.lock").lines().collect();
    let versions = lines.windows(2).filter(|pair| pair[0] == wanted);
    let quoted = versions.filter_map(|pair| pair[1].split('"').nth(1)).nth(index);
    quoted.unwrap_or("unknown").to_owned()
}

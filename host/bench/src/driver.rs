//! Which processes make up one run, and where do their figures go?

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use measure::Figure;

use crate::guests::{Guests, LANGUAGES};
use crate::{machine, report};

/// Runs every contender in a process of its own, one after the other, and writes the report.
pub fn run(guests_dir: &Path, extism: &str, out: &Path) -> Result<()> {
    let machine = machine::lines();
    let guests = Guests::at(guests_dir)?;
    let me = std::env::current_exe()?;
    let me = me.to_str().context("the path of this program is not UTF-8")?;
    let dir = guests_dir.to_str().context("the path of the guests is not UTF-8")?;
    let mut figures = Vec::new();
    let mut skipped = Vec::new();

    figures.extend(contender(me, &["tandem", dir])?);
    for language in LANGUAGES {
        match guests.hook(language) {
            Some(_) => figures.extend(contender(me, &["memory", language, dir])?),
            None => skipped.push(format!("the {language} guest: its toolchain was not there")),
        }
    }
    figures.extend(contender(me, &["bare", dir])?);
    let hook = guests.path("extism");
    match hook.to_str().filter(|_| hook.exists()) {
        Some(hook) => figures.extend(contender(extism, &[hook])?),
        None => skipped.push("Extism: its guest was not built".to_owned()),
    }
    figures.extend(contender(me, &["subprocess"])?);

    std::fs::write(out, report::text(&machine, &figures, &skipped))
        .with_context(|| format!("cannot write `{}`", out.display()))?;
    println!("wrote {}", out.display());
    Ok(())
}

/// The figures that a process prints; what it says besides goes on to the terminal.
fn contender(program: &str, args: &[&str]) -> Result<Vec<Figure>> {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    eprintln!("{name} {} …", args.join(" "));
    let output = Command::new(program)
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{program}`"))?;
    if !output.status.success() {
        bail!("`{program} {}` failed: {}", args.join(" "), output.status);
    }
    let lines = String::from_utf8(output.stdout).context("the figures are not UTF-8")?;
    lines.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

//! Runs the command line and turns its result into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    nacre::cli::run(|loaded| {
        println!("{:#?}", loaded.settings);
        ExitCode::SUCCESS
    })
}

//! `torture-worker ORDERS`: a client of a torture run. ORDERS is JSON, see `leasehold_torture::worker::Orders`. It prints
//! its history, and ends when its standard input ends.

use std::env;
use std::process::ExitCode;

use leasehold_torture::worker;

fn main() -> ExitCode {
    let orders = env::args().nth(1).ok_or_else(|| "usage: torture-worker ORDERS".to_owned());
    match orders.and_then(|text| serde_json::from_str(&text).map_err(|error| format!("bad orders: {error}"))) {
        Ok(orders) => {
            worker::run(orders);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

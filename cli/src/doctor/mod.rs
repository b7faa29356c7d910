//! `leasehold doctor`: checks whether the servers are fit for locks. Each check has a verdict, a finding and a remedy.

mod check;
mod measures;
mod names;
mod proxied;
mod remedies;
mod rights;
mod services;
mod settings;
mod trial;

use serde_json::json;

use check::{Check, Verdict};
use names::Names;
use remedies::without_doctor;
use trial::Trial;

use crate::args::{Doctor, Servers};
use crate::report::{Outcome, Output, exit};
use crate::servers::Node;

pub(crate) async fn run(servers: &Servers, arguments: &Doctor, output: Output) -> Outcome {
    let mut worst = 0;
    let names = Names::new(servers, arguments);
    // As a service connects: checks the version and the role as well. It also comes first because it sets up TLS.
    let (connected, trial) = match Trial::open(servers).await {
        Ok(trial) => (Check::ok("connect", "a lock manager connects"), Some(trial)),
        Err(failure) => {
            worst = failure.exit;
            let failure = without_doctor(failure);
            (Check::new("connect", Verdict::Problem, failure.message, failure.remedy), None)
        }
    };
    let mut report = Report { output, problems: false };
    report.show("all servers", &[connected])?;
    let nodes = match servers.nodes().await {
        Ok(nodes) => nodes,
        // The reason is the same as above, or says more.
        Err(failure) => return if worst == 0 { Err(failure) } else { Ok(worst) },
    };
    for node in nodes {
        match node {
            Ok(mut node) => {
                let address = node.address.clone();
                let checks = checks(&mut node, servers, &names, trial.as_ref()).await;
                report.show(&address, &checks)?;
                worst = 0;
            }
            Err(failure) => {
                report
                    .show("a server", &[Check::new("connection", Verdict::Problem, failure.message, failure.remedy)])?;
            }
        }
    }
    if let Some(trial) = trial {
        trial.close().await;
    }
    Ok(match (worst, report.problems) {
        (0, true) => exit::PROBLEM,
        (code, _) => code,
    })
}

async fn checks(node: &mut Node, servers: &Servers, names: &Names, trial: Option<&Trial>) -> Vec<Check> {
    if proxied::is_proxied(node, servers).await {
        let mut checks = proxied::check(node, servers).await;
        let user = node.info.redis_settings().username().unwrap_or("default").to_owned();
        checks.push(match trial {
            Some(trial) => trial.check(node, names, &user).await,
            None => not_tried(),
        });
        return checks;
    }
    let user = rights::user(node).await;
    let mut checks = settings::check(node).await;
    checks.extend(measures::check(node, servers, &user).await);
    let rights = rights::check(node, servers, names, &user).await;
    // Without a right, a lock could be taken and not be released.
    let missing = rights.iter().find(|check| check.verdict == Verdict::Problem && !check.name.starts_with(rights::ONE));
    let locks = match (trial, missing) {
        (None, _) => not_tried(),
        (_, Some(Check { finding, remedy, .. })) => {
            let finding = format!("not tried on `{}`: {finding}", names.key(&names.name(0)));
            Check::new(trial::NAME, Verdict::Problem, finding, remedy.as_str())
        }
        (Some(trial), None) => trial.check(node, names, &user).await,
    };
    checks.extend(rights);
    checks.push(locks);
    checks
}

fn not_tried() -> Check {
    Check::new(trial::NAME, Verdict::Unknown, "not tried: no lock manager connects", "")
}

struct Report {
    output: Output,
    problems: bool,
}

impl Report {
    fn show(&mut self, server: &str, checks: &[Check]) -> Outcome<()> {
        if !self.output.json {
            self.output.print(|| json!(null), || server.to_owned())?;
        }
        for check in checks {
            self.problems |= check.verdict == Verdict::Problem;
            let json = || {
                json!({
                    "server": server, "check": check.name, "verdict": check.verdict.word(),
                    "finding": check.finding, "remedy": Some(&check.remedy).filter(|text| !text.is_empty()),
                })
            };
            // A person needs only the rights that are missing, and how many are not.
            if self.output.json || check.verdict == Verdict::Problem || !check.name.starts_with(rights::ONE) {
                self.output.print(json, || check.line())?;
            }
        }
        Ok(())
    }
}

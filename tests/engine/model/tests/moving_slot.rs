//! The scripts on a real cluster while a slot moves.

mod common;

use common::Host;
use common::moving::{NAME, contents, scenarios};
use common::real::Real;
use leasehold_servers::{Cluster, Server};

#[test]
#[ignore = "a cluster takes seconds to start"]
fn while_a_slot_moves_every_script_is_refused_as_a_whole_or_runs_to_its_end() {
    let cluster = Cluster::steady(Server::builder).unwrap();
    let (from, slot) = (cluster.owner(NAME).unwrap(), cluster.slot(NAME).unwrap().to_string());
    let mut host = Real::connect(cluster.server(from));
    let mut problems = Vec::new();
    for scenario in scenarios() {
        scenario.prepare(&mut host);
        let before = contents(&mut host);
        let _moving = cluster.begin_move(NAME, (from + 1) % 3).unwrap();
        let result = scenario.run(&mut host);
        problems.extend(scenario.problem(result, &before, &contents(&mut host)));
        host.run(&["CLUSTER", "SETSLOT", &slot, "STABLE"]).unwrap();
        scenario.prepare(&mut host);
        problems.extend(scenario.problem_at_rest(scenario.run(&mut host)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

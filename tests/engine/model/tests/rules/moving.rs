use crate::common::model::model_lock;
use crate::common::moving::{contents, scenarios};

#[test]
fn while_a_slot_moves_every_script_is_refused_as_a_whole_or_runs_to_its_end() {
    let mut problems = Vec::new();
    for scenario in scenarios() {
        let mut host = model_lock().host;
        scenario.prepare(&mut host);
        let before = contents(&mut host);
        host.server.set_migrating(true);
        let result = scenario.run(&mut host);
        problems.extend(scenario.problem(result, &before, &contents(&mut host)));
        host.server.set_migrating(false);
        scenario.prepare(&mut host);
        problems.extend(scenario.problem_at_rest(scenario.run(&mut host)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

//! What a client that adopts leases asks its server for. The simulation's theme `Adopting` has leases that go from client to
//! client, while commands and messages are lost, late and doubled, and clients crash.

use leasehold_core::{AcquireOptions, Config, Error, Input, LeaseToken};
use leasehold_harness::Client;
use leasehold_harness::answers::entries;

#[test]
fn a_client_asks_no_server_for_a_token_of_its_own_that_holds_nothing() {
    let mut client = Client::new(Config::default());
    client.acquire("job", AcquireOptions::default());
    let [(_, command)] = &client.unanswered[..] else { panic!("the token asks for the lock") };
    let token = LeaseToken::read(entries(command).expect("the fast path")[0].token).unwrap();
    let options = AcquireOptions::default();
    let adopts = client.call(|op| Input::Adopt { op, name: "job", token, options: &options });
    assert_eq!(client.result_of(adopts), Some(&Err(Error::NotHeld)));
    assert_eq!(client.unanswered.len(), 1, "the server would have left a tombstone for the token, which may wait");
}

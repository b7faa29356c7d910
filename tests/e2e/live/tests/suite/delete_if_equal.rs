//! Releases without a script, on servers that can delete a key by its value.

use leasehold::ReleaseOutcome;
use leasehold_live::{Tested, options, text};
use leasehold_servers::Server;

use crate::acl::{PASSWORD, user};

/// Valkey 9.0 and Redis 8.4 have these.
const COMMANDS: [&[&str]; 2] = [&["DELIFEQ", "none", "value"], &["DELEX", "none", "IFEQ", "value"]];

/// How often the server has run such a command, and how often it has refused one.
fn runs(server: &Server) -> Result<[u32; 2], leasehold_servers::Error> {
    let stats = text(server, &["INFO", "commandstats"])?.unwrap_or_default();
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_delifeq:") || line.starts_with("cmdstat_delex:"));
    let fields: Vec<&str> = lines.flat_map(|line| line.split([':', ','])).collect();
    let of = |name| fields.iter().filter_map(|field| field.strip_prefix(name)?.parse::<u32>().ok()).sum();
    Ok([of("calls="), of("rejected_calls=")])
}

/// Takes and releases a mutex three times, alone.
async fn cycle(url: &str) -> Tested {
    let locks = options().connect(url).await?;
    let lock = locks.mutex("lone");
    for _ in 0..3 {
        assert_eq!(lock.acquire().await?.release().await?, ReleaseOutcome::Released);
    }
    locks.close().await;
    Ok(())
}

#[tokio::test]
async fn a_lone_mutex_is_released_without_a_script_where_the_server_and_the_user_allow_it() -> Tested {
    let server = Server::start()?;
    let command = COMMANDS.into_iter().find(|command| server.cli(command).is_ok()).map(|command| command[0]);
    let has = u32::from(command.is_some());
    assert_eq!(runs(&server)?, [has, 0]);

    cycle(&server.url()).await?;
    assert_eq!(runs(&server)?, [has * 4, 0]);

    // A user without the right is refused once, and then the client uses the script.
    let rules = ["on", &format!(">{PASSWORD}"), "~*", "&*", "+@all"].map(str::to_owned).into_iter();
    let rules: Vec<String> = rules.chain(command.map(|command| format!("-{command}"))).collect();
    cycle(&user(&server, "few", &rules)?).await?;
    assert_eq!(runs(&server)?, [has * 4, has]);
    Ok(())
}

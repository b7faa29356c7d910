//! Bad input, help, completions, the man page, and the topologies.

use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use leasehold_servers::{Certificate, Error, Sentinel, Server, follow};

use crate::common::{Tested, at, exit, run, text};

#[test]
fn a_command_line_that_cannot_be_used_is_refused_with_what_to_do() -> Tested {
    let server = Server::start()?;
    let long = "x".repeat(1 << 20);
    for (arguments, word) in [
        (vec!["exec", "", "--", "true"], "empty"),
        (vec!["exec", &long[..(1 << 17) - 1], "--", "true"], "name"),
        (vec!["inspect", ""], "empty"),
        (vec!["exec", "job"], "COMMAND"),
        (vec!["exec", "job"], "put the command after `--`"),
        (vec!["exec", "job", "./report.sh"], "put the command after `--`"),
        (vec!["exec", "job", "ls", "-l"], "put the command after `--`"),
        (vec!["exec", "job"], "leasehold exec [OPTIONS] <NAME> -- <COMMAND>..."),
        (vec!["exec", "-n", "job", "--", "true"], "--wait 0"),
        (vec!["exec", "--permits", "9", "--of", "5", "job", "--", "true"], "the number of --of"),
        (vec!["acquire", "--read", "job"], "`acquire` takes only mutexes"),
        (vec!["acquire", "job", "--", "true"], "leasehold exec"),
        (vec!["unlock", "job"], "force-release"),
        (vec!["--user", "app", "inspect", "job"], "REDIS_PASSWORD"),
        (vec!["exec", "--", "true"], "the name comes before `--`"),
        (vec!["lead", "--", "true"], "the name comes before `--`"),
        (vec!["lead", "job", "./serve"], "put the command after `--`"),
        (vec!["lead", "job"], "leasehold lead [OPTIONS] <NAME> -- <COMMAND>..."),
        (vec!["lead", "--value", "a\nb", "job", "--", "true"], "--value"),
        (vec!["lead", "--wait", "0", "job", "--", "true"], "`lead` waits for as long as it takes"),
        (vec!["campaign", "job"], "`lead` runs a program"),
        (vec!["exec", "--tll", "5s", "job", "--", "true"], "similar argument exists: '--ttl'"),
        (vec!["exec", "--ttl", "-5", "job", "--", "true"], "a time can't be negative"),
        (vec!["exec", "--ttl", "-5s", "job", "--", "true"], "a time can't be negative"),
        (vec!["exec", "--ttl", "--wait", "1s", "job", "--", "true"], "the time is missing"),
        (vec!["exec", "--wait", "-1", "job", "--", "true"], "`forever` sets no limit"),
        (vec!["exec", "--max-hold", "31days", "job", "--", "true"], "10 ms to 30 days"),
        (vec!["--timeout", "1ms", "inspect", "job"], "10 ms to 60 s"),
        (vec!["exec", "-q", "-v", "job", "--", "true"], "--quiet"),
        (vec!["exec", "--adopt", "secret", "job", "--", "true"], "--adopt"),
        (vec!["exec", "--adopt", "-", "job", "--", "true"], "LEASEHOLD_TOKEN"),
        (vec!["acquire"], "<NAME>"),
        (vec!["release", "job"], "--token <TOKEN>"),
        (vec!["release", "--token", "", "job"], "the token is empty"),
        (vec!["release", "--token", "secret", "job"], "unchanged"),
        (vec!["exec", "--ttl", "1ms", "job", "--", "true"], "ttl"),
        (vec!["exec", "--ttl", "soon", "job", "--", "true"], "30s"),
        (vec!["exec", "--wait=-1", "job", "--", "true"], "--wait"),
        (vec!["exec", "--permits", "2", "--of", "1", "job", "--", "true"], "permits"),
        (vec!["exec", "--read", "--permits", "1", "--of", "1", "job", "--", "true"], "--permits"),
        (vec!["--url", "nonsense", "inspect", "job"], "--url"),
        (vec!["--url", "redis://a,redis://b", "inspect", "job"], "--cluster"),
        (vec!["--tls-ca", "/no/such/file", "inspect", "job"], "/no/such/file"),
        (vec!["--quorum", "inspect", "job"], "3"),
        (vec!["frobnicate"], "frobnicate"),
    ] {
        let shown: Vec<_> = arguments.iter().map(|word| &word[..word.len().min(40)]).collect();
        let (code, message) = exit(&run(&server, &arguments)?);
        assert_eq!(code, Some(64), "{shown:?}: {message}");
        assert!(message.contains(word), "{shown:?}: {message}");
        let internal =
            ["`password`", "InvalidClientConfig", "LockManager", "'-- "].iter().find(|text| message.contains(**text));
        assert_eq!(internal, None, "{shown:?}: {message}");
        assert!(message.len() < 2_000, "{shown:?}: the message is short");
    }
    Ok(())
}

#[test]
fn a_bad_value_of_the_environment_names_its_variable() -> Tested {
    let server = Server::start()?;
    for (variable, value) in [("LEASEHOLD_TTL", "soon"), ("LEASEHOLD_WAIT", "-1")] {
        let mut command = at(&server.url(), &["exec", "job", "--", "true"]);
        let (code, message) = exit(&command.env(variable, value).output()?);
        assert!(code == Some(64) && message.contains(&format!("variable {variable}")), "{message}");
    }
    let mut command = at(&server.url(), &["exec", "--ttl", "soon", "job", "--", "true"]);
    let (_, message) = exit(&command.env("LEASEHOLD_TTL", "soon").output()?);
    assert!(!message.contains("variable"), "{message}");
    Ok(())
}

#[test]
fn a_topology_that_is_not_there_says_what_to_do() -> Tested {
    let server = Server::start()?;
    for (option, remedy) in
        [(&["--cluster"][..], "leave --cluster out"), (&["--sentinel", "main"], "leave --sentinel out")]
    {
        for command in [&["inspect", "job"][..], &["ls"], &["exec", "job", "--", "true"], &["doctor"]] {
            let output = run(&server, &[option, command].concat())?;
            let said = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.code(), Some(78), "{option:?} {command:?}: {said}");
            assert!(said.contains(remedy) && !said.contains("LockManager"), "{option:?} {command:?}: {said}");
        }
    }
    Ok(())
}

#[test]
fn a_server_that_refuses_writes_says_what_to_do_about_it() -> Tested {
    let server = Server::start()?;
    let exec = ["exec", "job", "--", "true"];
    server.cli(&["CONFIG", "SET", "maxmemory", "1"])?;
    let (code, message) = exit(&run(&server, &exec)?);
    assert!(code == Some(70) && message.contains("raise its `maxmemory`"), "{code:?}: {message}");
    let cluster = Server::builder().config("cluster-enabled yes\n").start()?;
    let down = ["--timeout", "1s", "--cluster", "exec", "job", "--", "true"];
    let (code, message) = exit(&run(&cluster, &down)?);
    assert!(code == Some(69) && message.contains("redis-cli --cluster check"), "{code:?}: {message}");
    let (code, message) = exit(&run(&server, &["--db", "999", "inspect", "job"])?);
    assert!(code == Some(70) && message.contains("another --db"), "{code:?}: {message}");
    Ok(())
}

#[test]
fn the_advice_has_the_name_as_a_shell_takes_it() -> Tested {
    let server = Server::start()?;
    for (name, word) in
        [("invoice:42", "inspect invoice:42`"), ("it's", r"inspect 'it'\''s'`"), ("a\nb", "inspect NAME`")]
    {
        server.cli(&["SET", name, "somebody", "PX", "600000"])?;
        let (code, message) = exit(&run(&server, &["exec", "--wait", "0", name, "--", "true"])?);
        assert!(code == Some(75) && message.contains(word), "{message}");
    }
    Ok(())
}

#[test]
fn a_key_with_other_data_is_told() -> Tested {
    let server = Server::start()?;
    server.cli(&["RPUSH", "list", "1"])?;
    for arguments in [vec!["inspect", "list"], vec!["exec", "list", "--", "true"], vec!["force-release", "-y", "list"]]
    {
        let (code, message) = exit(&run(&server, &arguments)?);
        assert_eq!(code, Some(65), "{message}");
        assert!(message.contains("[wrong-kind]"), "{message}");
    }
    let (_, json) = exit(&run(&server, &["--json", "inspect", "list"])?);
    let error: serde_json::Value = serde_json::from_str(&json)?;
    assert_eq!((&error["error"]["code"], &error["error"]["exit"]), (&"wrong-kind".into(), &65.into()));
    Ok(())
}

#[test]
fn a_login_that_is_refused_is_told() -> Tested {
    let server = Server::builder().password("secret").start()?;
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let (code, message) = exit(&at(&url, &["inspect", "job"]).output()?);
    assert_eq!(code, Some(77), "{message}");
    assert!(message.contains("REDIS_PASSWORD"), "{message}");
    assert_eq!(exit(&at(&url, &["inspect", "job"]).env("REDIS_PASSWORD", "secret").output()?).0, Some(0));
    let (code, message) = exit(&at(&url, &["inspect", "job"]).env("REDIS_PASSWORD", "other").output()?);
    assert_eq!(code, Some(77), "{message}");
    assert!(message.contains("REDIS_PASSWORD"), "{message}");
    let doctor = at(&url, &["doctor"]).env("REDIS_PASSWORD", "other").output()?;
    assert_eq!(doctor.status.code(), Some(77));
    assert!(text(&doctor.stdout).matches("REDIS_PASSWORD").count() == 2, "{}", text(&doctor.stdout));
    Ok(())
}

#[test]
fn a_port_of_another_service_is_told() -> Tested {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let web = thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let _ = client.read(&mut [0; 512]).and_then(|_| client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    let (code, message) = exit(&at(&format!("redis://127.0.0.1:{port}/"), &["inspect", "job"]).output()?);
    assert_eq!(code, Some(69), "{message}");
    assert!(message.contains("another service may listen there") && message.contains("REDIS_URL"), "{message}");
    drop(web);
    Ok(())
}

#[test]
fn a_key_of_another_kind_says_how_to_look_at_it() -> Tested {
    let server = Server::start()?;
    server.cli(&["RPUSH", "list", "1"])?;
    let (_, message) = exit(&run(&server, &["inspect", "list"])?);
    assert!(message.contains("redis-cli TYPE"), "{message}");
    Ok(())
}

#[test]
fn help_completions_and_the_man_page_name_every_command() -> Tested {
    let help = text(&at("", &["--help"]).output()?.stdout);
    let man = at("", &["man"]).output()?;
    let bash = at("", &["completions", "bash"]).output()?;
    for command in [
        "exec",
        "lead",
        "acquire",
        "release",
        "forget",
        "ls",
        "inspect",
        "watch",
        "force-release",
        "doctor",
        "completions",
    ] {
        assert!(help.contains(command), "{command}");
        assert!(text(&bash.stdout).contains(command), "{command}");
        let heading = format!("LEASEHOLD {}", command.to_uppercase());
        assert!(text(&man.stdout).contains(&heading), "{command}");
    }
    assert!(help.contains("75   the lock is busy"), "{help}");
    assert!(help.contains("[default: redis://127.0.0.1:6379]"), "{help}");
    let exec = text(&at("", &["exec", "--help"]).output()?.stdout);
    assert!(text(&man.stdout).contains("EXAMPLES AND EXIT CODES"), "{man:?}");
    for text in [&exec, &text(&man.stdout)] {
        assert!(text.contains("LEASEHOLD_FENCE") && text.contains("SIGTERM"), "{text}");
    }
    Ok(())
}

#[test]
fn completions_work_in_the_shells_that_are_installed() -> Tested {
    // Bash and fish complete a beginning. Zsh does that only on a terminal, so it just says which function completes.
    let bash = r#"eval "$COMPLETIONS"; COMP_WORDS=(leasehold ins); COMP_CWORD=1; _leasehold leasehold ins leasehold; echo "$COMPREPLY""#;
    let zsh = r#"autoload -Uz compinit; compinit -u -D; eval "$COMPLETIONS"; print -- $_comps[leasehold] $+functions[_leasehold]"#;
    let fish = r#"printf '%s' "$COMPLETIONS" | source; complete -C 'leasehold ins'"#;
    for (shell, options, script, expected) in [
        ("bash", "--norc", bash, "inspect\n"),
        ("zsh", "--no-rcs", zsh, "_leasehold 1\n"),
        ("fish", "--no-config", fish, "inspect\tShow who holds a lock and who waits for it\n"),
    ] {
        let completions = text(&at("", &["completions", shell]).output()?.stdout);
        assert!(completions.len() > 1_000, "{shell}");
        let output = Command::new(shell).args([options, "-c", script]).env("COMPLETIONS", completions).output();
        match output {
            Ok(output) => assert_eq!(text(&output.stdout), expected, "{shell}: {}", text(&output.stderr)),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{shell}: {error}"),
        }
    }
    Ok(())
}

/// To run it under a lock.
const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");

#[test]
fn a_quorum_of_servers_has_locks() -> Tested {
    let mut servers = [Server::start()?, Server::start()?, Server::start()?];
    let urls = servers.each_ref().map(Server::url).join(",");
    let exec = ["--quorum", "exec", "job", "--", "sh", "-c", "exit 6"];
    assert_eq!(exit(&at(&urls, &exec).output()?), (Some(6), String::new()));
    servers[1].stop();
    assert_eq!(at(&urls, &exec).output()?.status.code(), Some(6), "a majority is left");
    let listed = at(&urls, &["--quorum", "exec", "job", "--", PROGRAM, "--quorum", "ls", "--json"]).output()?;
    assert_eq!(text(&listed.stdout).lines().count(), 1, "{listed:?}");
    servers[2].stop();
    assert_eq!(at(&urls, &exec).output()?.status.code(), Some(69));
    Ok(())
}

#[test]
fn a_server_of_a_quorum_that_is_a_replica_is_named() -> Tested {
    let servers = [Server::start()?, Server::start()?, Server::start()?];
    follow(&servers[1], &servers[0])?;
    let urls = servers.each_ref().map(Server::url).join(",");
    let (code, message) = exit(&at(&urls, &["--quorum", "inspect", "job"]).output()?);
    assert_eq!(code, Some(78), "{message}");
    assert!(message.contains(&format!("127.0.0.1:{}: the server is a replica", servers[1].port())), "{message}");
    Ok(())
}

#[test]
fn the_primary_is_found_through_sentinel() -> Tested {
    let primary = Server::start()?;
    let replica = Server::start()?;
    follow(&replica, &primary)?;
    let sentinel = Sentinel::start(Server::builder(), &primary, 1, "")?;
    let url = sentinel.server().url();
    let main = leasehold_servers::PRIMARY;
    assert_eq!(exit(&at(&url, &["--sentinel", main, "exec", "job", "--", "true"]).output()?), (Some(0), String::new()));
    let list = [PROGRAM, "--sentinel", main, "ls", "--json"];
    let listed = at(&url, &[&["--sentinel", main, "exec", "job", "--"][..], &list].concat()).output()?;
    assert_eq!(text(&listed.stdout).lines().count(), 1, "{listed:?}");
    assert_eq!(at(&url, &["--sentinel", "other", "inspect", "job"]).output()?.status.code(), Some(64));
    Ok(())
}

#[test]
fn a_server_is_reached_over_tls() -> Tested {
    let certificate = Certificate::make()?;
    let server = match Server::builder().password("secret").tls(&certificate).start() {
        Ok(server) => server,
        Err(Error::NotStarted(log)) if log.contains("finding TLS support") || log.contains("Bad directive") => {
            writeln!(io::stdout(), "skipped: this server has no TLS")?;
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let (url, path) = (server.tls_url().unwrap_or_default(), certificate.path());
    let trusted = |arguments: &[&str]| at(&url, arguments).env("LEASEHOLD_TLS_CA", &path).output();
    assert_eq!(exit(&trusted(&["exec", "job", "--", "true"])?), (Some(0), String::new()));
    let listed = trusted(&["exec", "job", "--", PROGRAM, "ls", "--json"])?;
    assert_eq!(text(&listed.stdout).lines().count(), 1, "{listed:?}");
    assert_eq!(at(&url, &["inspect", "job"]).output()?.status.code(), Some(69), "it is not trusted");
    Ok(())
}

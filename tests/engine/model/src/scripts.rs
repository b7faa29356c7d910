//! The server's script cache, and the deliberate faults in scripts.

use leasehold_lua::Script;
use mlua::Function;
use rustc_hash::FxHashMap;

use crate::interpreter::Interpreter;

type Digest = Vec<u8>;

#[derive(Default)]
pub(crate) struct Scripts {
    /// Every script text so far, with its digest and its compiled function.
    known: FxHashMap<String, (Digest, Function)>,
    /// The scripts that EVALSHA can run.
    loaded: FxHashMap<Digest, Function>,
    /// The faulty scripts, which run instead of the originals.
    faulty: FxHashMap<Digest, (String, Function)>,
}

impl Scripts {
    /// Forgets the loaded scripts.
    pub(crate) fn flush(&mut self) {
        self.loaded.clear();
    }

    /// The function that EVAL of this text runs. From then on, EVALSHA finds it too.
    pub(crate) fn load(&mut self, interpreter: &mut Interpreter, text: &str) -> Result<&Function, String> {
        if !self.known.contains_key(text) {
            let digest = sha1_smol::Sha1::from(text).digest().to_string().into_bytes();
            self.known.insert(text.to_owned(), (digest, interpreter.compile(text)?));
        }
        let (digest, function) = &self.known[text];
        let function = self.faulty.get(digest).map_or(function, |(_, faulty)| faulty);
        Ok(self.loaded.entry(digest.clone()).insert_entry(function.clone()).into_mut())
    }

    /// The function that EVALSHA of this digest runs.
    pub(crate) fn loaded(&self, digest: &[u8]) -> Result<&Function, String> {
        self.loaded.get(digest).ok_or_else(|| "NOSCRIPT No matching script. Please use EVAL.".to_owned())
    }

    /// Adds a fault to a script, which may already have others.
    pub(crate) fn replace(
        &mut self,
        interpreter: &mut Interpreter,
        script: &Script,
        find: &str,
        put: &str,
    ) -> Result<(), String> {
        let digest = script.sha1.as_bytes();
        let text = self.faulty.get(digest).map_or(script.source, |(text, _)| text);
        if !text.contains(find) {
            return Err(format!("the script {} does not contain {find:?}", script.name));
        }
        let text = text.replace(find, put);
        let function = interpreter.compile(&text)?;
        if let Some(loaded) = self.loaded.get_mut(digest) {
            *loaded = function.clone();
        }
        self.faulty.insert(digest.to_vec(), (text, function));
        Ok(())
    }
}

//! The client's side of one TLS connection. It does no I/O: bytes go in, and bytes for the other side come out.

use std::cell::RefCell;
use std::rc::Rc;

use rustls::Error;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};

use super::{config, problem};
use crate::bindings::exports::leasehold::lock::connection::Failure;
use crate::net::address::Address;

/// Both directions of a connection share it.
#[derive(Clone)]
pub(in crate::net) struct Tls(Rc<RefCell<Client>>);

struct Client {
    /// rustls has an interface over sockets as well. That one needs the clock of the standard library, which this target
    /// doesn't have.
    connection: UnbufferedClientConnection,
    /// What the server sent and the client has not used: the beginning of a record.
    incoming: Vec<u8>,
    /// What the server has to get.
    outgoing: Vec<u8>,
}

impl Tls {
    /// None if the address doesn't ask for TLS.
    pub(in crate::net) fn for_address(address: &Address) -> Result<Option<Self>, Failure> {
        if address.tls.is_none() {
            return Ok(None);
        }
        let name = ServerName::try_from(address.host.clone())
            .map_err(|_| Failure::Unsupported(format!("`{}` can't be the name in a certificate", address.host)))?;
        let connection = UnbufferedClientConnection::new(config::shared()?, name).map_err(|error| {
            Failure::Unsupported(format!("can't use TLS with {}, port {}: {error}", address.host, address.port))
        })?;
        let client = Client { connection, incoming: Vec::new(), outgoing: Vec::new() };
        Ok(Some(Self(Rc::new(RefCell::new(client)))))
    }

    pub(in crate::net) fn is_handshaking(&self) -> bool {
        self.0.borrow().connection.is_handshaking()
    }

    /// The next part of the handshake for the server, or an alert that tells it what is wrong.
    pub(in crate::net) fn outgoing(&self) -> Vec<u8> {
        let mut client = self.0.borrow_mut();
        // After an error, this leaves the alert and reports the error again.
        let _ = client.work(&[], &mut Vec::new());
        std::mem::take(&mut client.outgoing)
    }

    /// The bytes to send for this text.
    pub(in crate::net) fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut client = self.0.borrow_mut();
        client.work(plain, &mut Vec::new()).map_err(|error| problem::describe(&error))?;
        Ok(std::mem::take(&mut client.outgoing))
    }

    /// The text in these bytes. Or why the connection can't be trusted any more, in words for a log.
    pub(in crate::net) fn decrypt(&self, encrypted: &[u8]) -> Result<Vec<u8>, String> {
        let mut client = self.0.borrow_mut();
        client.incoming.extend_from_slice(encrypted);
        let mut received = Vec::new();
        client.work(&[], &mut received).map_err(|error| problem::describe(&error))?;
        Ok(received)
    }
}

impl Client {
    /// Goes on until more bytes must come. Then the text is encrypted, if the handshake is over.
    fn work(&mut self, plain: &[u8], received: &mut Vec<u8>) -> Result<(), Error> {
        loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(&mut self.incoming);
            let mut waits = false;
            let mut result = Ok(());
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => result = encode(&mut data, &mut self.outgoing),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                received.extend_from_slice(record.payload);
                            }
                            Err(error) => result = Err(error),
                        }
                    }
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    waits = true;
                    if !plain.is_empty() {
                        result = encrypt(&mut traffic, plain, &mut self.outgoing);
                    }
                }
                // The server ends the connection, which its socket shows as well.
                Ok(ConnectionState::PeerClosed) => {}
                Ok(_) => waits = true,
                Err(error) => result = Err(error),
            }
            self.incoming.drain(..discard.min(self.incoming.len()));
            result?;
            if waits {
                return Ok(());
            }
        }
    }
}

/// Appends a part of the handshake.
fn encode<Data>(data: &mut EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>) -> Result<(), Error> {
    append(outgoing, |buffer| match data.encode(buffer) {
        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => Err(Some(required_size)),
        other => other.map_err(|_| None),
    })
}

/// Appends the encrypted text.
fn encrypt<Data>(traffic: &mut WriteTraffic<'_, Data>, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Error> {
    append(outgoing, |buffer| match traffic.encrypt(plain, buffer) {
        Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => Err(Some(required_size)),
        other => other.map_err(|_| None),
    })
}

/// Appends what `write` writes. It returns the size that it needs if there is too little room.
fn append(bytes: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) -> Result<(), Error> {
    let (start, mut room) = (bytes.len(), 0);
    loop {
        bytes.resize(start.saturating_add(room), 0);
        match write(bytes.get_mut(start..).unwrap_or_default()) {
            Ok(written) => {
                bytes.truncate(start.saturating_add(written));
                return Ok(());
            }
            Err(Some(needed)) if needed > room => room = needed,
            Err(_) => {
                bytes.truncate(start);
                return Err(Error::EncryptError);
            }
        }
    }
}

//! The accounts in PostgreSQL. Each row refuses a fence that is smaller than the greatest it has seen.

use leasehold::Fence;
use sqlx::PgPool;

use crate::refusal::Refusal;

/// The table of accounts.
#[derive(Clone, Debug)]
pub struct Accounts(PgPool);

impl Accounts {
    /// Makes the table if it is not there.
    ///
    /// # Errors
    /// If the database can't do it.
    pub async fn new(pool: PgPool) -> Result<Self, sqlx::Error> {
        let table = "CREATE TABLE IF NOT EXISTS accounts (
            id bigint PRIMARY KEY,
            balance bigint NOT NULL,
            fence bigint NOT NULL DEFAULT 0
        )";
        sqlx::query(table).execute(&pool).await?;
        Ok(Self(pool))
    }

    /// Opens an account.
    ///
    /// # Errors
    /// If the database can't do it, for example because the account is there.
    pub async fn open(&self, user: i64, balance: i64) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO accounts (id, balance) VALUES ($1, $2)")
            .bind(user)
            .bind(balance)
            .execute(&self.0)
            .await?;
        Ok(())
    }

    /// Reads a balance, and refuses all older holders from now on.
    ///
    /// # Errors
    /// [`Refusal::Stale`] after a later holder, [`Refusal::Unknown`] without such an account.
    pub async fn claim(&self, user: i64, fence: Fence) -> Result<i64, Refusal> {
        let claim = "UPDATE accounts SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING balance";
        let claim = sqlx::query_scalar(claim).bind(user).bind(i64::from(fence));
        match claim.fetch_optional(&self.0).await? {
            Some(balance) => Ok(balance),
            None => Err(self.why_not(user).await?),
        }
    }

    /// Writes a balance, unless a later holder has claimed the row.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub async fn write(&self, user: i64, balance: i64, fence: Fence) -> Result<(), Refusal> {
        let write = sqlx::query("UPDATE accounts SET balance = $3 WHERE id = $1 AND fence = $2");
        let written = write.bind(user).bind(i64::from(fence)).bind(balance).execute(&self.0).await?;
        if written.rows_affected() == 1 { Ok(()) } else { Err(self.why_not(user).await?) }
    }

    /// Why no row was changed.
    async fn why_not(&self, user: i64) -> Result<Refusal, sqlx::Error> {
        let there = sqlx::query("SELECT FROM accounts WHERE id = $1").bind(user).fetch_optional(&self.0).await?;
        Ok(if there.is_some() { Refusal::Stale } else { Refusal::Unknown })
    }
}

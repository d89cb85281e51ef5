"""The store of a fleet: a schema of a PostgreSQL database, for all processes that reach it.

    store       the face: opened, closed
    address     where the store is, out of its URL
    connection  connections, bounded; what an error of the database means
    schema      bringing a database to this version's tables, in two parts around a deployment
    partition   the months that histories are kept by
    clock       store time
    append      appends as columns; who was written and why others were not
    log, session, scope, lending, stream, shared_value, view, tail, upkeep    one promise of holdfast.ports each
    retention   months that leave them, and go for good
    administration  what a person does to the store as a whole
    context     what these stand on

Its SQL is in ../sql/postgres, and in ../sql/queries.sql what both stores say; the nouns on that are in ../nouns.
"""

from holdfast.stores.postgres.administration import PostgresAdministration
from holdfast.stores.postgres.store import PostgresStore

__all__ = ["PostgresAdministration", "PostgresStore"]

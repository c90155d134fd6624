"""Who did what: the actions of operators, written in the transactions that carry them out."""

from pillarbox.audit.actor import acting_as, actor
from pillarbox.audit.ledger import Audit
from pillarbox.audit.model import Act, OperatorAction

__all__ = ["Act", "Audit", "OperatorAction", "acting_as", "actor"]

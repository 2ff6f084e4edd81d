"""What a store must do: `api` has the rules of all and the whole, the other files the protocols it is made of."""

from afl.runtime.persistence.api import PersistenceAPI
from afl.runtime.persistence.changes import EventDefinition, IterationChanges
from afl.runtime.persistence.runs import RunFilter
from afl.runtime.persistence.tasks import TaskFilter

__all__ = ["EventDefinition", "IterationChanges", "PersistenceAPI", "RunFilter", "TaskFilter"]

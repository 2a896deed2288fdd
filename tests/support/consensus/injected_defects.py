"""Small defects of the consensus core that the simulation must find.

The seed of a defect is one whose schedule finds it: CI replays it. A change of the core or of the simulation changes
what a seed does. Then `python -m support.consensus.find_defects --update` searches a new one for each defect that its
seed no longer finds.
"""

from __future__ import annotations

from types import ModuleType

from support.consensus import election_defects, replication_defects, voter_defects

CATALOGS: tuple[ModuleType, ...] = (election_defects, replication_defects, voter_defects)
DEFECTS = tuple(defect for catalog in CATALOGS for defect in catalog.DEFECTS)

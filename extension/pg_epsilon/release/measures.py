"""The measures of releases, one for each way to draw."""

from pg_epsilon.release.cells import Cells
from pg_epsilon.release.fitted import Fitted
from pg_epsilon.release.iterated import Iterated
from pg_epsilon.release.singly import Singly

Measured = Cells | Iterated | Singly | Fitted

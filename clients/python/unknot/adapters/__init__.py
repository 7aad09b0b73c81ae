"""For agents that keep their framework and their messaging and only report what they wait for.

Here is what all frameworks share, with no dependency of its own; ``unknot.adapters.langgraph``, ``.openai_agents`` and
``.autogen`` need the extra of that name. What cannot be reported is not, and stops nobody: only a deadlock ends a wait.
"""

from unknot.adapters._lock import Lock
from unknot.adapters._steps import step
from unknot.adapters._work import context, working

__all__ = ["Lock", "context", "step", "working"]

"""What a topology and a rule protect, told before any training; `lppa audit` is in `command`."""

from lppa.auditing.document import audit_blueprint, warning_lines

__all__ = ["audit_blueprint", "warning_lines"]

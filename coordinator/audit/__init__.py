"""What a topology and a rule protect, told before any training.

Runs and reports use `document.audit_blueprint` and `document.warning_lines`; `lppa audit` is in
`command`.
"""

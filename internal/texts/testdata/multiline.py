class ValidationError(Exception):
    pass

raise ValidationError("2 errors\nto\n  is missing\nsubject\n  is too long")

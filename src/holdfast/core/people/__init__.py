"""The rules of what people are asked: gates, who may decide them, and the questions of code that has changed or is gone.

Never here: who a person is (service), how a question is shown.
"""

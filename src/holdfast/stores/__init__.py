"""Where histories live on disk: one folder for each kind of database, and the SQL that they speak.

Never here: meaning. A store writes down what core.projection tells it to; a rule in a store would be a second truth.
"""

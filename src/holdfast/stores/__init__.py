"""The stores of histories on disk: one folder for each kind of database, and the SQL that they speak.

    history, row, statement  the parts of appends, rows and SQL that are the same in every kind of database
    month, archive, shelf    by what histories are kept, what one is that has left the tables, where it is
    retention                months that leave, and go for good

Never here: meaning. A store writes down what core.views.projection tells it to; a rule in a store would be a second truth.
"""

"""Judgements: each detector reads the tables and says what was wrong and what it cost.

One detector a module, in a folder by subject; the module's path is the detector's id. A
module that is put there is found by itself (`catalogue`); its form is in `contract`.
Causes are decided in the pipeline: a detector adds threshold, severity and wording.
"""

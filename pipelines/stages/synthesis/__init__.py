"""Synthesis, scenario by scenario: which ones in which number, who speaks, how they talk, and what is rejected.

mix.py draws scenarios to a target mix, inventing.py writes those that are missing; casting.py gives the speakers their
personas; turns.py plays a scenario line by line, whole.py in one call; checks.py knows what no supporter should say;
play.py makes the Dialogue. May import: ser_toolkit, the stage of protection.
"""

"""CEPS: place partitions on the fewest rented servers, and show what that saves."""

from ceps.model.calls_per_request import servers_a_request
from ceps.model.patterns import Patterns
from ceps.model.patterns_file import read_patterns, write_patterns
from ceps.model.problem import InfeasibleError
from ceps.model.reads import Reads
from ceps.model.servers import CATALOGUES, ServerType, load_servers
from ceps.model.variation import Risk
from ceps.offers.choose import OFFERS, rent
from ceps.offers.comparison import Comparison, WhatIf, compare, what_if
from ceps.offers.hourly import schedule
from ceps.offers.mixed import mixed
from ceps.offers.payment import Terms
from ceps.plan.offer import Offer
from ceps.plan.overload import overload_risk
from ceps.plan.planning import METHODS, plan
from ceps.plan.plans import Plan, PlanDiff, diff, load_plan
from ceps.reporting.report import build_report
from ceps.reporting.report_page import write_report

__all__ = [
    "CATALOGUES",
    "METHODS",
    "OFFERS",
    "Comparison",
    "InfeasibleError",
    "Offer",
    "Patterns",
    "Plan",
    "PlanDiff",
    "Reads",
    "Risk",
    "ServerType",
    "Terms",
    "WhatIf",
    "build_report",
    "compare",
    "diff",
    "load_plan",
    "load_servers",
    "mixed",
    "overload_risk",
    "plan",
    "read_patterns",
    "rent",
    "schedule",
    "servers_a_request",
    "what_if",
    "write_patterns",
    "write_report",
]

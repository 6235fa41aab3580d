"""Meaning of column names: patterns over their words, in English and some German, French and Spanish."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from duckanon.policy.kinds import words

Meaning = Literal["identifier", "quasi_identifier", "sensitive"]

_HEAD = re.compile(r"_(?:of|at|by|per|in|for|since|der|des|de|du)_(?!$)")

SUBJECTS = (
    "patient|person|people|customer|client|employee|staff|user|member|student|pupil|subject|participant|"
    "respondent|family|citizen|resident|owner|contact|case|donor|tenant|driver|passenger|household|account|record|"
    "row"
)
"""Words for the subject of a record: a number named after one is a key, however often it repeats."""

PERSONS = (
    "patient|person|customer|client|employee|user|member|student|pupil|participant|respondent|citizen|resident|"
    "owner|contact|donor|tenant|driver|passenger"
)
"""Subjects that are persons: a name that ends in one may also be a yes or no (``cancer_patient``)."""

ROLES_OF_OTHERS = (
    "doctor|physician|surgeon|dentist|nurse|midwife|therapist|clinician|practitioner|pharmacist|prescriber|carer|"
    "caregiver|officer|agent|clerk|broker|advis[eo]r|consultant|counsell?or|lawyer|attorney|solicitor|judge|"
    "prosecutor|witness|victim|suspect|offender|defendant|plaintiff|teacher|tutor|lecturer|professor|instructor|"
    "coach|author|writer|editor|reviewer|examiner|assessor|inspector|preparer|payer|payor|payee|tax_?payer|"
    "applicant|borrower|debtor|creditor|lender|guarantor|co_?signer|beneficiary|(?:policy_?)?holder|heir|"
    "supervisor|manager|assistant|secretary|operator|sponsor|referrer|representative|delegate|spouse|husband|wife|"
    "partner|mother|father|parent|guardian|child|son|daughter|brother|sister|sibling|neighbou?r|landlord|"
    "arzt|[aä](?:e)?rztin|pfleger|pflegerin|(?:sach)?bearbeiter|sachbearbeiterin|m[eé]decin|m[eé]dico"
)
"""Words for persons other than the subject, who treat, judge, pay or are kin."""

_IDENTIFIERS = {
    "a name of a person": rf"""(?<=^_)names?_$
        (?:{SUBJECTS}|{ROLES_OF_OTHERS})_?names?_
        (?:first|last|given|full|middle|maiden|sur|fore|nick|christian)_?names?_
        surname vorname nachname familienname prenom nom_ apellidos? nombre_ next_of_kin_""",
    "an e-mail address": "e_?mails?(?:_addr[a-z]*)?_ mail_(?:addr[a-z]*_)?",
    "a telephone number": """(?:tele|cell|mobile|home|work)?_?phones?(?:_?(?:no|nr|num|number))?_ telephone
        telefon[a-z]*_ (?:mobile|cell)_(?:no|nr|num|number)_ mobile_$ tel_ fax_""",
    "an official number": """ssn_ social_?security nino_ passport national_?(?:id|no|number)_
        driv[a-z]*_licen[cs]e
        licen[cs]e_(?:plate|no|number)_ number_?plate (?:tax|vat)_?(?:id|no|nr|number)_ tin_ mrn_ dni_ curp_
        nhs_?(?:no|number)_ medical_record insurance_?(?:id|no|nr|number)_ policy_?(?:no|number)_""",
    "a number of an account or card": """iban_ bic_ (?:account|cc)_?(?:no|nr|num|number)_
        (?:credit_|debit_|bank_)?card_?(?:no|nr|num|number)_""",
    "an account, a device or a page": """ip_?addr[a-z]*_ ip_$ mac_?addr[a-z]*_ imei_ user_?name_ login_ url_
        website_ homepage_ twitter_ facebook_ instagram_ cookie_ session_id_ device_id_""",
    "an address": "street stras{1,2}e calle_ address addr_ house_?(?:no|nr|num|number)_ apartment_",
    "a picture or a body measure": "photo picture_ signature_ finger_?print biometric dna_ iris_scan",
}

_SENSITIVE = {
    "health": """diseases?_ diagnos[a-z]*_ icd_ illness medicati?on drugs?_ prescription treatments?_
        therap[a-z]*_ symptoms?_ hiv_ aids_ cancer tumou?r surgery_ allerg[a-z]*_ disabilit[a-z]*_
        pregnan[a-z]*_ mental psychiatr cholesterol glucose_ blood_(?:pressure|sugar)_
        bmi_ (?:lab|test)_results?_ medical_condition_
        health_(?:status|condition|problems?|score)_ health_$ krankheit maladie enfermedad""",
    "money": """salar(?:y|ies)_ wages?_ incomes?_ earnings?_ payroll compensation_ bonus_ charges?_
        debts?_ loans?_ mortgage net_?worth_ credits?_ account_?balance_ balance_$ amounts?_ savings?_
        checking_(?:accounts?|status|balance)_ dividends?_ capital_(?:gains?|loss(?:es)?)_
        [a-z]*tax(?:es)?_ fica_ alimony pension_ gehalt einkommen lohn_ salaire sueldo ingresos""",
    "beliefs or private life": """religi[a-z]*_ faith_ church_ politic[a-z]*_ union_member[a-z]*_
        sexual[a-z_]*_ voted?_""",
    "a risk": "risks?_ risk_?(?:score|level|class)_ credit_?worth[a-z]*_ default(?:ed)?_$",
    "an offence": "crimes?_ criminal offen[cs]es?_ convict[a-z]*_ arrests?_ felon[a-z]*_",
    "performance": "grades?_ gpa_ marks_ iq_",
}

_QUASI = {
    "an age": "ages?_ alter_ edad_",
    "a birth": "dob_ birth[a-z]*_ born_ geburt[a-z]*_ naissance nacimiento",
    "a coordinate": """lat(?:itude)?_ lon(?:g|gitude)?_ lng_ [xy]_?coord[a-z]*_ coord[a-z]*_
        easting_ northing_ gps_""",
    "a postal code": "zip_?(?:code)?_ zips?_ post(?:al)?_?code_ plz_ codigo_postal code_postal",
    "a place": """city_ town_ village_ county_ states?_ province region[a-z]*_ district municipal
        countr(?:y|ies)_ nation_ continent geo[a-z]*_ location place_ area_ community tract_ neighbou?rhood
        ort_ stadt_ land_ ville_ pais_""",
    "a trait that others can see or know": """sex_ gender geschlecht sexo_ race_ ethnic[a-z]*_ nationality
        citizen[a-z]*_ native_ language marital married_ civil_status spouse children_ famil[a-z]*_ household
        relation[a-z]*_ education degree_ school[a-z]*_ occupation job_ profession employ[a-z]*_ work_?class
        class_of_worker industry_ veteran military height_ (?:eye|hair|skin)_
        (?<!instance_)(?<!sample_)(?<!sampling_)(?<!survey_)(?<!design_)weight_""",
    "a person": f"(?:{ROLES_OF_OTHERS}|by)_$",
    "a time": """dates?_ year_ month_ days?_ weeks?_ time[a-z]*_ datum_ jahr_ fecha_ admission discharge_""",
}

_KEY = re.compile(
    r"_(?:id|uuid|guid|key|pk|rowid|nr|no|num|number|seq|serial|account|acct|ref|reference|case)_$"
)
_UNSEGMENTED_KEY = re.compile(r"^_[a-z]{3,}(?:id|key)_$")
_NO_KEYS = frozenset(
    ("unpaid", "prepaid", "valid", "invalid", "grid", "hybrid", "solid", "fluid", "liquid", "rapid", "covid")
)  # fmt: skip
_SUBJECT_KEY = re.compile(rf"_(?:{SUBJECTS})s?_?(?:id|uuid|guid|key|pk|nr|no|num|number|code)_$")
_BARE_KEY = re.compile(r"^_(?:id|uuid|guid|key|pk|rowid|row|idx|index|nr|number)_$")
_BARE_SUBJECT = re.compile(rf"^_(?:{SUBJECTS})_$")
_TITLE = re.compile(r"name_$")
_PERSON = re.compile(rf"_(?:{PERSONS}|{ROLES_OF_OTHERS}|by)_$")


def _compiled(table: dict[str, str]) -> dict[str, re.Pattern[str]]:
    """Return one pattern a meaning; each part of it begins at a word, and after ``_`` ends at its end."""
    return {what: re.compile(f"(?<=_)(?:{'|'.join(parts.split())})") for what, parts in table.items()}


_TABLES: dict[Meaning, dict[str, re.Pattern[str]]] = {
    "identifier": _compiled(_IDENTIFIERS),
    "sensitive": _compiled(_SENSITIVE),
    "quasi_identifier": _compiled(_QUASI),
}


class Named(NamedTuple):
    """Meaning of a name: the role that it suggests, and the named thing in words."""

    role: Meaning
    what: str


def named(name: str) -> Named | None:
    """Meaning of a name, None if unknown; a direct identifier is preferred to every other meaning."""
    # If a name suggests two roles, the later word decides (`income_state` is a state). In a name such as
    # `age_at_diagnosis` the part before `at` decides.
    text = words(name)
    identifier = _last(text, "identifier")
    if identifier is not None:
        return identifier[1]
    for part in (_head(text), text):
        ends = [end for role in ("quasi_identifier", "sensitive") if (end := _last(part, role)) is not None]
        if ends:
            return max(ends, key=lambda end: end[0])[1]
    return None


def key_named(name: str) -> Literal["subject", "key"] | None:
    """Whether a name is a key: of a subject or record (``patient_id``, ``id``), or another (``plan_id``)."""
    text = words(name)
    if _BARE_KEY.search(text) or _SUBJECT_KEY.search(text):
        return "subject"
    unsegmented = _UNSEGMENTED_KEY.search(text) and text.strip("_") not in _NO_KEYS
    return "key" if _KEY.search(text) or _BARE_SUBJECT.search(text) or unsegmented else None


def person_named(name: str) -> bool:
    """Whether a name ends with a word for a person: ``loan_officer``, ``tax_payer``, not ``spouse_age``."""
    return _PERSON.search(_head(words(name))) is not None


def title_named(name: str) -> bool:
    """Whether a name ends in "name", of a person, a firm or a thing: ``plan_name``, ``UTILNAME``."""
    return _TITLE.search(words(name)) is not None


def _head(text: str) -> str:
    """Return the part of a name before "of", "at", "by" and similar words: it names the thing."""
    return _HEAD.split(text)[0].rstrip("_") + "_"


def _last(text: str, role: Meaning) -> tuple[int, Named] | None:
    """Return the meaning whose match ends last, with the end of the match."""
    ends = [
        (match.end(), Named(role, what))
        for what, pattern in _TABLES[role].items()
        for match in pattern.finditer(text)
    ]
    return max(ends, key=lambda end: end[0]) if ends else None

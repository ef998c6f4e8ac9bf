//! The patterns of prompt injection, as regular expressions without backtracking.
//!
//! Each was tested on a hundred thousand harmless descriptions; a pattern that matches many of them has little weight.

/// The weight of a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignWeight {
    Critical,
    /// A warning alone.
    Warning,
    /// Counts only beside other signs.
    Weak,
}

impl SignWeight {
    pub(super) fn points(self) -> usize {
        match self {
            Self::Critical => CRITICAL,
            Self::Warning => WARNING,
            Self::Weak => 1,
        }
    }
}

/// The points from which a text is critical, or a warning.
pub(super) const CRITICAL: usize = 3;
pub(super) const WARNING: usize = 2;

/// A sign of prompt injection: its pattern, weight and description.
pub(super) struct SignDefinition {
    pub(super) check: &'static str,
    pub(super) weight: SignWeight,
    pub(super) what: &'static str,
    pub(super) pattern: &'static str,
    /// Whether a space of the pattern matches any separator between words of a sentence.
    pub(super) is_sentence: bool,
}

const fn define_sign(
    check: &'static str,
    says: SignWeight,
    what: &'static str,
    pattern: &'static str,
) -> SignDefinition {
    SignDefinition { check, weight: says, what, pattern, is_sentence: false }
}

const fn define_order(what: &'static str, pattern: &'static str) -> SignDefinition {
    SignDefinition {
        check: DIRECTIVE,
        weight: SignWeight::Critical,
        what,
        pattern,
        is_sentence: true,
    }
}

const DIRECTIVE: &str = "text.directive";
const SHADOWS: &str = "text.shadows";
const PAYLOAD: &str = "text.payload";

/// Patterns for normalised texts: lower case with single spaces.
pub(super) const SIGNS: &[SignDefinition] = &[
    define_order(
        "orders the reader to ignore what it was told",
        r"\b(?:ignore|disregard|forget|bypass|override|overrule|discard|supersede)s?(?: \w+){0,2} (?:previous|prior|above|earlier|preceding|foregoing|former)(?: \w+){0,3} (?:instructions?|rules|guidelines|directives?|training|restrictions)\b|\b(?:ignore|disregard|forget|override|overrule) (?:all |any |the |your |my )*(?:previous|prior|above|earlier|preceding) (?:\w+ )?(?:prompts?|messages|constraints|commands)(?:[.,;:!]|$| and\b)|\b(?:ignore|disregard|forget|bypass|override|overrule|discard)s?(?: \w+){0,2} (?:your|system|original|safety)(?: \w+){0,2} (?:instructions?|prompts?|guidelines|directives?|training|constraints|restrictions)\b|\b(?:ignore|disregard|forget) (?:all|any)(?: of)?(?: the| your| other)? (?:instructions|rules|guidelines)\b|\b(?:ignore|disregard|forget) (?:everything|anything|all|whatever)(?: that)?(?: was| you| has been| have been)?(?: \w+){0,2} (?:above|told|said|instructed)\b|\b(?:ignore|disregard|forget) (?:everything|anything|all|whatever)(?: that)?(?: (?:came|was said|you were told))? before\b",
    ),
    define_order(
        "orders the reader to keep something from its user",
        r"\b(?:do not|don.?t|never|must not|should not|without|avoid|no need to|not to)(?: ever)? (?:tell|telling|mention|mentioning|inform|informing|reveal|revealing|disclose|disclosing|letting)(?: \w+){0,5} (?:the |your |to )?(?:user|human|operator|person)\b|\b(?:hide|conceal|hidden|keep|withhold|kept)(?: \w+){0,4} from (?:the|your) (?:user|human|operator)\b|\b(?:user|human)s? (?:must|should|may|can)(?: not|not|n.?t) (?:know|be told|be informed|learn|notice|find out)\b|\bwithout the user(?:.s)? (?:knowing|noticing|knowledge)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "speaks in the marks of a model's own conversation",
        r"<\|(?:im_start|system|start_header_id|begin_of_text)\|>|<</?sys>>|</?system[-_](?:reminder|prompt|message|instructions?|override)>|\[/?system[-_ ](?:prompt|message|override|instructions?)\]",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "spells an order letter by letter",
        r"\b(?:i[^a-z]{1,3}g[^a-z]{1,3}n[^a-z]{1,3}o[^a-z]{1,3}r[^a-z]{1,3}e|d[^a-z]{1,3}i[^a-z]{1,3}s[^a-z]{1,3}r[^a-z]{1,3}e[^a-z]{1,3}g[^a-z]{1,3}a[^a-z]{1,3}r[^a-z]{1,3}d|i[^a-z]{1,3}n[^a-z]{1,3}s[^a-z]{1,3}t[^a-z]{1,3}r[^a-z]{1,3}u[^a-z]{1,3}c[^a-z]{1,3}t[^a-z]{1,3}i[^a-z]{1,3}o[^a-z]{1,3}n[^a-z]{1,3}s|p[^a-z]{1,3}r[^a-z]{1,3}e[^a-z]{1,3}v[^a-z]{1,3}i[^a-z]{1,3}o[^a-z]{1,3}u[^a-z]{1,3}s)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "has a tag that speaks to models",
        r"<important> ?[^ <]|[^ >] ?</important>|</?(?:very_important|critical_instructions?|hidden_instructions?|secret_instructions?|assistant_instructions?|llm_instructions?|ai_instructions?|tool_instructions?|mandatory)>|<!-- ?(?:ai|llm|assistant|agent|model|system|claude|gpt|instructions?)s?(?: \w+)? ?[:,]",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "makes the reader somebody else",
        r"\byou are (?:now|no longer) (?:in )?(?:dan\b|developer mode|unrestricted|jailbroken|an? unrestricted|god mode|root\b|admin mode|bound by|restricted)|\b(?:enter|enable|activate|switch to) (?:developer|god|jailbreak|dan|unrestricted) mode\b|\b(?:reveal|print|repeat|output|leak|dump|show)(?: \w+){0,5} (?:your|the) (?:system prompt|hidden prompt|initial instructions|system message)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "wants the contents of a secret file",
        r"\b(?:read|open|cat|load|send|upload|include|attach|pass|post|provide|copy|get|fetch|print|retrieve|exfiltrate|paste)\b(?: [^ ]+){0,6} [^ ]*(?:\.ssh/(?:id_|\*|[ ,.)]|$)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws/credentials|/etc/shadow\b|\.cursor/mcp\.json|claude_desktop_config\.json|\.git-credentials|\.bash_history|\.config/gcloud|wallet\.dat|login\.keychain)",
    ),
    define_order(
        "says that other instructions no longer hold",
        r"\b(?:previous|prior|earlier|original|your|system|existing) (?:\w+ ){0,2}(?:instructions|guidelines|rules|prompts?|restrictions|directives) (?:no longer|do not|don.?t|have been|has been|are (?:now )?(?:void|obsolete|cancelled|suspended|revoked|lifted))\b|\b(?:regardless of what|whatever|no matter what) (?:the |your )?(?:user|human) (?:asks|says|wants|requests|tells)|\b(?:user|human) (?:does not|doesn.?t|do not|need not)(?: need to| have to)? (?:know|see|notice)\b|\b(?:treat|regard|take|consider)(?: \w+){0,6} as (?:\w+ ){0,2}(?:instructions|commands|orders)\b|\b(?:follow|obey|execute) (?:all |any |every )?(?:the )?(?:commands|instructions|orders) (?:found |given |contained )?(?:in|from) (?:the )?(?:returned|output|result|response|tool)|\brepeat (?:everything|all|the text|the words) (?:above|before)|\b(?:delete|remove|clear|erase|drop|discard) (?:the |your |all )?(?:previous|prior|earlier) (?:guidelines|instructions|rules|prompt)|\bsystem prompt is (?:now|changed|replaced)|\bdeny (?:that (?:it|you|this)|knowing|having)|\byour context window\b|\btell (?:nobody|no one|no-one)\b|\bdo anything now\b|\byou are an? (?:unrestricted|jailbroken|uncensored|unfiltered)|\bignore (?:all |any |your )?safety\b|\blie to (?:the|your) (?:user|human)|\bdisregard (?:any|all|every) (?:other )?instructions?\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "has the reader deceive its user, or act without asking",
        r"\bpretend\b|\b(?:say|claim|tell \w+|tell the user|report|state) that (?:the )?\w+ (?:has )?(?:succeeded|failed|was successful|is complete)\b|\b(?:user|human) has (?:already )?(?:pre-?approved|already given (?:\w+ )?consent|already consented|approved (?:all|every|this))|\b(?:do not|don.?t|never|without|no need to|must not|should not|shall not)(?: ever)? (?:ask|asking|prompt|prompting|wait for|seek|require|request)(?:ing)?(?: for| the| user| human| any| their| your){0,4} (?:user|human|confirmation|permission|approval|consent)\b|\bskip (?:\w+ )?(?:confirmation|approval|permission|safety|security)(?: \w+)?(?: prompts?| checks?)|\bwithout (?:any )?(?:user|human) (?:approval|confirmation|consent|interaction|oversight)\b|\b(?:do not|don.?t|never|must not|shall not|should not)(?: \w+)? (?:display|show|print|output|notify|alert)(?: \w+){0,7} to (?:the|your) (?:user|human)\b|\b(?:do not|don.?t|never|must not|shall not|should not)(?: \w+)? (?:mention|disclose|reveal|inform|tell)(?:ing)? (?:this|it|them|him|her|anyone|anybody|these|about this|any of this)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "wants to be called whatever the user asks",
        r"\b(?:before|prior to)(?: you)? (?:are )?(?:(?:respond|responding|answer|answering|reply|replying)(?: (?:to )?(?:any|every|each)\b|[,.;:!]| (?:call|read|send|first|always|you)\b)|every (?:response|answer|message|reply)\b)|\b(?:always|must|first) (?:call|use|invoke|run|execute) this(?: tool| function)? ?(?:first\b|instead\b|[.;!]|before (?:any|every|each|all|doing|responding|answering|you)\b|for (?:any|every|all|each)\b|on every\b|with every\b|no matter\b|regardless\b|even\b|, )|\bcall this (?:tool |function )?(?:at the (?:start|beginning)|on every|for every|every time|with every|in every|before any|first\b)|\b(?:every|each|any) (?:user )?(?:message|conversation|prompt|turn) (?:from|of|by|the|with|must|should|you|before|to)\b|\buser.?s? (?:messages?|prompts?|questions?|request) verbatim\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "names a file that steers a shell or a model",
        r"(?:~|/[a-z]+)/\.profile\b|\.(?:bashrc|zshrc|bash_profile|zprofile|npmrc|cursorrules|windsurfrules)\b|\bauthorized_keys\b|\.cursor/rules|\b(?:claude|agents|gemini|copilot-instructions)\.md\b|/etc/(?:crontab|sudoers)\b|~/\.config/|~/(?:documents|desktop|downloads)\b|/home/[a-z]+/\.",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "sends what it should not to somebody",
        r"\bb?cc[`\x27\x22]? (?:to |is |= ?)?[^ ]+@|\b(?:encode|hide|embed|put|place)(?: \w+){0,3} (?:api key|token|password|secret|credentials?|private key)s? (?:in|into|as|to) (?:base64|hex|[`'\x22]|(?:the |an? |your )?(?:\w+ )?(?:url|image|link|filename|query|note|notes|memo|comment|message|description)\b)|\b(?:paste|enter|copy|put|include|insert) (?:the |a )?user.?s (?:password|clipboard|secret|credit card|token)|\bclipboard (?:and|into|to|in) (?:include|send|pass|put|\w+ it)\b|!\[[^\]]{0,40}\]\(https?://[^)]{0,200}[?&][^)]{0,40}=(?:secret|token|data|key|\{|<)|\b(?:all|every|each|any)(?: \w+){0,4} (?:must|should|shall|have to|has to|need to) (?:also |first )?be (?:sent|forwarded|posted|uploaded|copied|cc.d|bcc.d|routed|redirected)(?: \w+){0,2} to [^ ]*(?:@|://)|\b(?:forward|send|post|upload|mail)s? (?:a )?(?:copy|copies) of (?:each|every|all|any)\b|\b(?:send|post|forward|upload|transmit|exfiltrate|leak|submit|report)s? (?:the |all |any |your |its )?(?:\w+ )?(?:api[ _-]?keys?|passwords?|credentials|secrets|private keys?|cookies|tokens?) (?:\w+ ){0,3}to (?:https?://|[^ ]+@)|\b(?:number|address|account|server|url|email) of the attacker\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "wants a secret that the reader may know",
        r"\b(?:value|values|contents?) of (?:the )?(?:\w+ )?[a-z0-9_]*(?:_api_key|_token|_secret|_password|secret_key|access_key)\b|\b(?:tokens?|keys?|passwords?|secrets?|credentials) (?:that (?:is|are) )?(?:found|stored|available|saved|present|you find|you have) in (?:the|your|its) (?:environment|env|config|context|memory|keychain|browser|shell)|\b(?:grab|retrieve|harvest|extract|collect|steal|gather|fetch|dump|get|read)\b(?: [^ ]+){0,4} (?:saved passwords|browser (?:cookies|history|data)|session cookies|stored credentials|seed phrase)\b|\b(?:your|full|entire|whole) (?:full |entire )?(?:system prompt|tool list|list of tools|chat history)\b|\b(?:full|entire|whole) conversation\b|\b(?:chat|conversation)s? (?:messages|logs?|transcripts?) (?:of|from|with) (?:the |other |all |your )",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "names a secret file",
        r"~/\.ssh|/\.ssh/|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/credentials|/etc/(?:passwd|shadow)\b|\.cursor/mcp\.json|claude_desktop_config|\.netrc\b|\.pgpass\b|\.git-credentials|\.kube/config|\.bash_history|\.config/gcloud|\.docker/config\.json|\.env file\b|[ /`'\x22]\.env\b|wallet\.dat|keychain\.db",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "speaks to a model",
        r"<(?:system|instructions?|assistant|developer)>|\[/?inst\]|<\|[a-z_]{2,20}\|>|#{2,} ?(?:system|instructions?|new instructions?)\b ?:|</(?:tool_?)?description>|\bend of (?:tool )?(?:description|instructions|prompt)\b|(?:^|[.!?] )(?:human|assistant): |\b(?:admin|root|debug|god|maintenance|developer|sudo) mode (?:is |has been )?(?:now )?(?:enabled|on|active|activated|unlocked)\b|\bin your (?:final |next )?(?:answer|response|reply)\b|\byour (?:first|next) (?:action|step|task) \b|\b(?:attention|dear|hey|hello),? (?:ai|llm|assistant|model|agent|claude|gpt|chatgpt|copilot)s?\b|\bact as (?:an? |the )?(?:system |root )?(?:administrator|admin|root|hacker|superuser)|\bthe (?:assistant|llm|ai) (?:must|should|shall|has to|needs to) |\b(?:system|assistant|developer) ?(?:note|override|message|notice|instruction)s? ?:|\b(?:important|note|message|instructions?|notice|attention|reminder) (?:to|for) (?:the |all |any )?(?:ai|llm|assistant|model|agent|language model|chatbot|claude|gpt|copilot)s?\b|\bnew (?:system )?instructions? ?:|\bas an? (?:ai|llm|language model|assistant|agent), you\b|\b(?:ai|llm) (?:assistants?|agents?|models?) (?:must|should|shall|need to|have to|are required)\b|\bjailbreak\b|\bprompt injection\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "wants what was said in a conversation, or what a model was told",
        r"\b(?:include|pass|send|append|attach|provide|add|copy|put|insert|summari[sz]e|forward|paste|write)\b(?: \w+){0,7} (?:conversation history|chat history|previous messages|chat log|entire conversation|full conversation|whole conversation|conversation so far|system prompt|conversation context|chat transcript|all (?:available )?tools|tool descriptions)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "wants secrets of the reader's surroundings",
        r"\b(?:include|pass|send|append|attach|copy|put|read|dump|collect|print|upload|gather|exfiltrate|steal|leak)\b(?: \w+){0,6} (?:environment variables?|env vars?|private keys|(?:your|any|user.?s) private key|ssh keys?|api keys (?:you|from|in)|saved passwords|browser cookies|session cookies|stored credentials|seed phrase|mnemonic phrase|all (?:credentials|secrets|tokens|passwords))\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Weak,
        "takes whatever it finds",
        r"\b(?:read|upload|list|send|collect|copy|grab|take|attach|append) (?:all|every|any|each)(?: of)?(?: the)?(?: \w+)? (?:files?|documents?|messages?|emails?|data|results?|contents?|variables|secrets)\b|\b(?:documents|home|downloads|desktop) (?:folder|directory)\b|\b(?:the )?contents? of (?:the |a |each |every )?(?:file|following)\b|\bappend (?:the |its )?results?\b|\bas (?:context|metadata|sidenote|memo|a side ?note)\b|\bside ?note\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Weak,
        "turns off what protects",
        r"\b(?:disable|turn off|bypass|circumvent|skip|evade|suppress)(?: \w+){0,3} (?:security|safety|scanner|guardrails?|sandbox|antivirus|checks?|filters?|monitoring|logging|audit)\b|\bcomply with (?:every|all|any)\b|\b(?:trusted?|trust) this (?:server|tool)\b|\bfor (?:logging|debugging|compliance|verification|audit|telemetry|security) (?:purposes|reasons)?\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Weak,
        "speaks of the reader's user",
        r"\b(?:the|your) user (?:asks|says|wants|requests|has asked|must|should)\b|\b(?:inform|tell|ask|confuse|mislead|notify) (?:the|your) user\b|\b(?:the|your) (?:answer|response|reply) to the user\b|\bfrom now on\b",
    ),
    // Some documentation marks paragraphs with this tag.
    define_sign(DIRECTIVE, SignWeight::Weak, "has a tag that speaks to models", r"</?important>"),
    define_sign(
        DIRECTIVE,
        SignWeight::Weak,
        "acts behind the user's back",
        r"\b(?:silently|secretly|covertly|quietly|discreetly|stealthily|invisibly|in the background|behind the scenes)\b|\b(?:do not|don.?t|never|without|no need to)(?: \w+){0,2} (?:show|showing|notify|notifying|alert|alerting|ask|asking|warn|warning|display|displaying|confirm|confirming|explain|explaining|prompt|prompting|log|logging)(?: \w+){0,4} (?:user|users|confirmation|permission|approval|anyone|this|it)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Weak,
        "gives an order",
        r"\byou (?:must|shall|have to|need to|are required to|should always|will always|should first)\b|\b(?:always|must) (?:first )?(?:call|use|invoke|run|read|execute|include|pass|send|add|be (?:called|used|invoked|run|changed|set|replaced|sent))\b|\botherwise (?:the |this )?(?:tool|function|call|request|it) (?:will|won.?t|does|cannot|fails)|\b(?:mandatory|prerequisite|required step|precondition)\b|\bbefore (?:using|calling|invoking|running) (?:this|any|the) (?:tool|function)\b|\bfirst,? (?:read|call|run|open|execute|cat)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Weak,
        "sends something elsewhere",
        r"\b(?:bcc|exfiltrate|leak|forward|redirect|transmit|steal|also send|also post|also upload|also forward|copy (?:it|them|all|everything)|upload (?:it|them|all|everything|the)|post (?:it|them|the|all|its)|send (?:it|them|its|a copy|all|every|everything|their|the (?:\w+ )?(?:contents?|results?|data|files?|conversation|output|response|keys?)))\b(?: [^ ]+){0,9} (?:to|at|via|through) [^ ]*(?:https?://|[\w.+-]@[\w-]|\.(?:com|net|io|org|ru|xyz|evil|example)\b)|\bbcc\b|\battacker\b|\bexfiltrat",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Weak,
        "changes what another call sends",
        r"\b(?:change|replace|set|redirect|overwrite|modify|rewrite|substitute|switch|changed|replaced|redirected|modified)\b(?: [^ ]+){0,5} (?:recipients?|bcc|cc|destination|amount|wallet|iban|payee|account number|address|to field|parameters?|arguments?)\b|\b(?:recipient|destination|amount|payee|wallet|address)s? (?:must|should|needs to|has to|to) be\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Weak,
        "speaks of secrets",
        r"\b(?:password|passwords|credential|credentials|api[_ -]?keys?|secrets?|access tokens?|private keys?|ssh keys?|session cookies?)\b",
    ),
    define_sign(
        SHADOWS,
        SignWeight::Warning,
        "tells what to do about other tools",
        r"\b(?:before|after|whenever|every time|each time|any time|instead of|prior to|rather than)(?: you| the| an?| user| users| agent| is| are){0,3} (?:using|calling|invoking|running|executing|use|call|invoke|run|uses|calls) (?:the |any |other |another |all |of |tool |function )*[`'\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9]\b|\bwhen(?: you| the| an?| user| users| agent){0,3} (?:calling|invoking|call|invoke|calls) (?:the |any |other |another |all |of |tool |function )*[`'\x22]?[a-z][a-z0-9]*[_-][a-z0-9_-]*[a-z0-9]\b|\b(?:before|after|whenever|when|instead of|prior to) (?:the )?[`'\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9][`'\x22]?(?: tool| function)?,? (?:always|is (?:called|used|invoked|run|available)|you|must|call|use|first)\b|\b(?:do not|don.?t|never|stop) (?:use|using|call|calling|invoke|trust) (?:any |the |all )?(?:other|another|different|built-?in|existing|official) (?:\w+ )?(?:tools?|functions?|servers?|version)\b|\b(?:do not|don.?t|never|stop) (?:use|using|call|calling|invoke) (?:the )?[`'\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9]\b|\b(?:the |tool )?[`\x27\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9][`\x27\x22]? (?:tool|function) (?:is|was|has been|will be) (?:broken|deprecated|insecure|unsafe|compromised|unavailable|disabled|replaced|malicious)|\b(?:use|prefer|choose|call) this (?:tool |function |one )?(?:over|instead of|rather than|in place of) (?:the |any |all |every )*(?:other\b|built-?in\b|official\b|default\b|existing\b|native\b|[`'\x22]?[a-z][a-z0-9]*_[a-z_]+)|\bthe only (?:\w+ ){0,2}(?:tool|function) (?:you|that you|to)\b|\b(?:another|other|different) tools? (?:named|called|with)\b|\b(?:any|every|each|all) (?:subsequent|later|further|following|future) (?:calls? (?:to|of) )?[`\x27\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9]\b|\b(?:sent|made|executed) (?:by|with|via|through) (?:the )?[`\x27\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9]\b|\b(?:this tool|this function) (?:replaces|supersedes|overrides|takes precedence over|must be (?:called|used|run|invoked) (?:before|instead of|first))\b|\b(?:any|all|every|other) tools? (?:from|of|on) (?:another|other|any other|different) servers?\b|\ball tools must\b|\b[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9] (?:tool |function )?has an? (?:vulnerability|backdoor|bug)\b|\b(?:all|any|every|each) other (?:mcp )?(?:tools?|servers?)\b|\b(?:the|all|any|of) other tools?\b|\binstead of (?:the |any )?(?:other|built-?in|existing|official|default|native) (?:\w+ )?tools?\b|\bwhen(?:ever)? (?:the )?(?:tool |function )?[`'\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9][`'\x22]?(?: tool| function)? is (?:called|used|invoked|present|available|run)\b",
    ),
    define_order(
        "orders the reader to leave its rules",
        r"\b(?:ignore|disregard|forget|discard|overlook|set aside|pay no attention to|stop following|do not follow|don.?t follow|never follow|abandon|drop|replace|reset|clear|rewrite|disable|lower|remove|turn off|deactivate) (?:all |any |all of |of )?your (?:\w+ ){0,2}(?:rules|guidelines|guidance|instructions|directives|directions|policies|policy|persona|filters?|safeguards|guardrails|principles|restrictions|limitations|programming|training|context|memory)\b",
    ),
    define_order(
        "orders the reader to leave its orders",
        r"\b(?:ignore|disregard|forget|discard|cancel|set aside|pay no attention to|disable|stop following)(?: \w+){0,2} (?:instructions?|directions?|directives?|guidance|guidelines|rules|orders|restrictions|limitations)(?: \w+){0,2} (?:so far|until now|before|earlier|previously|given to you|you (?:got|were given|received|have|had))\b|\b(?:ignore|disregard|forget|disable|lift)(?: \w+){0,2} (?:previous|prior|above|earlier|preceding|former) (?:\w+ )?(?:description|directions?|orders|restrictions|guidance|context|task|text)\b",
    ),
    define_order(
        "orders the reader to forget what it read before",
        r"\b(?:ignore|disregard|forget) (?:everything |all )?(?:of )?(?:the )?(?:above|foregoing|previous) (?:and|then|instead)\b|\b(?:ignore|disregard|forget) (?:everything|all|anything) (?:written |said |stated )?(?:above|before)\b|\b(?:ignore|forget|disregard) what (?:the |your )?(?:\w+ ){1,2}(?:told|said|asked|wants|wanted|says|instructed)\b|\b(?:nothing|none of the text|none of what is) (?:written )?above(?: \w+){0,3} (?:applies|counts|matters|holds)\b|\bwhat you (?:were|have been) (?:told|instructed|taught)\b",
    ),
    define_order(
        "orders the reader not to obey its user",
        r"\b(?:do not|don.?t|never|stop) (?:follow|following|obey|obeying|listen to|listening to) (?:the |your )?(?:user|system|developer|operator|human)\b|\b(?:ignore|disobey|disregard|overrule|overrides?) (?:the )?user(?:.s)? (?:intent|instructions?|wishes|requests?|commands|orders|input and)\b|\bignore (?:the )?user (?:obey|and (?:call|do|run|obey))\b",
    ),
    define_order(
        "puts itself above what else the reader was told",
        r"\b(?:take|takes|taking|have|has) (?:\w+ )?(?:precedence|priority) over (?:\w+ ){0,3}(?:system prompt|system message|system instructions|user.?s (?:\w+ )?(?:instructions|request|wishes)|your (?:\w+ )?instructions|your guidelines)\b|\b(?:your|previous|earlier|prior|existing|old) (?:\w+ )?(?:directives|instructions|rules|guidelines|policies) (?:are|were|is) (?:\w+ )?(?:superseded|replaced|overridden|cancelled|canceled|suspended|revoked|void|lifted|obsolete|outdated)\b|\byou (?:are free of|are freed from|have no|are not bound by|are exempt from)(?: \w+){0,2} (?:restrictions|limits|limitations|rules|filters|guidelines)\b|\bexempt from your\b|\b(?:real|actual|true) (?:task|instructions|request|goal|purpose) (?:begins|starts|is now|follows|now)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "forbids the reader to refuse",
        r"\b(?:refuse nothing|never refuses?(?: any| a)?|no refusals?|(?:do not|don.?t|must not|cannot|can.?t) refuse)\b|\bcomply with (?:all|every|any)(?: \w+)? requests?\b|\b(?:override|bypass|disable|jailbreak|turn off|evade)s?(?: all| any| the| your)? (?:security|safety)(?: \w+)? ?(?:rules|restrictions|filters|checks|controls|measures|mechanisms|guidelines|protocols)\b|\boverride (?:all )?(?:security|safety)\b|\b(?:now|commands) without restrictions?\b|\bno (?:content|safety) filters?\b|\b(?:without|no) questions?(?: asked)?[.!]",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "gives the reader another part to play",
        r"\byou(?:.re| are)(?: now)? (?:dan|root|the root user|an? (?:\w+ )?(?:hacker|attacker|evil|rogue|exfiltration|penetration tester|different assistant|admin|administrator|system administrator))\b|\byou are no longer (?:an? |the |bound|just)|\byou are now (?:an? |the |in |my |free)|\byour new (?:role|task|job|purpose|goal|objective|identity|instructions?) (?:is|are)\b|\b(?:imagine|suppose|assume)(?: that)? you(?:.re| are)\b|\bfrom (?:here|now|this point) on,? you (?:are|play|will|act|must|should|shall)\b|\blet.?s play a game\b|\bbehave (?:as|like) an? (?:ai|assistant|model|agent|unrestricted)\b|\bact as (?:my|an? (?:unrestricted|uncensored|unfiltered|ai|evil|rogue)|dan|\w+gpt)\b|\bactivate \w+ mode\b|\bwithout (?:ethics|morals|censorship|moral)\b|\b(?:drop|leave|abandon) your (?:persona|role|character)\b|\bagent who never\b|\bhave no limits\b",
    ),
    define_order(
        "keeps its user from noticing",
        r"\b(?:do not|don.?t|never|must not|should not)(?: ever)? let (?:the |your |any )?(?:end )?(?:user|users|human|humans|person|them|anyone|anybody|operator)(?: \w+){0,2} (?:see|know|notice|find out|learn|realise|realize|be aware|become aware)\b|\b(?:user|human|person|operator|customer)s? (?:remains?|stays?|must remain|must stay|should remain|is kept|are kept|be kept) (?:unaware|in the dark|oblivious|ignorant|uninformed)\b|\b(?:without|avoid|not) (?:drawing|attracting|raising|arousing|draw|attract) (?:any |the user.s )?(?:attention|suspicions?)\b|\b(?:nobody|no one|noone|none of them)(?: \w+)? (?:notices?|sees|knows|finds? out|know|notice)(?: \w+){0,2} (?:the|this|that|it|about)\b|\bas (?:though|if) (?:\w+ ){0,4}never happened\b|\b(?:do|perform|run|execute|send|call) (?:it|this|so|them) (?:quietly|silently|secretly|discreetly|covertly)\b|\b(?:quietly|secretly|covertly|discreetly|stealthily) (?:call|send|sends|read|include|pass|append|copy|upload|forward|collect|exfiltrate|log|record)s?\b|\bsilently (?:call|send|read|include|pass|append|copy|upload|forward|collect|exfiltrate)\b|\b(?:read|send|copy|call|forward|upload) (?:it|them|this) (?:silently|secretly|quietly)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "wants something left out of what is told",
        r"\b(?:bring|bringing) (?:this|it|that) up\b|\b(?:do not|don.?t|never) (?:talk|speak|write|comment) (?:about|of|on) (?:this|it|these|that)\b|\b(?:do not|don.?t|never) (?:repeat|report|say|show|describe|announce|explain|expose) (?:this|it|that|these)(?: \w+){0,3} to (?:them|him|her|anyone|users?|people|the)\b|\bkeep(?: [^ ]+){0,7} (?:between us|to yourself|confidential from|a secret from|out of (?:the|your) (?:chat|answer|transcript|summary|log))\b|\b(?:leave out|omit|exclude|erase|strip|suppress)(?: [^ ]+){0,7} (?:from|in|when you) (?:your |the )?(?:summary|transcript|answer|reply|chat|final|summari[sz]e|log afterwards)|\b(?:stay|remain|keep|kept|be) (?:\w+ )?(?:invisible|unnoticed|undetected|unseen) (?:to|by|for) |\b(?:not|never) (?:to )?be (?:shown|displayed|mentioned|disclosed|revealed|reported)(?: \w+){0,2} (?:to|in) (?:the |any )?(?:end )?(?:user|users|transcript|chat|human|conversation)\b|\b(?:say|claim|answer|reply|tell them|tell the user)(?: [^ ]+){0,2} (?:nothing|none) (?:was|has been|is|were) \w+|\banswer [^ ]*no[^a-z ]* (?:if|when)\b|\b(?:when|while) (?:you )?summari[sz](?:e|ing),? (?:do not|don.?t|never)\b|\bunder no circumstances (?:may|should|must|can|let) (?:the|your) (?:user|person|human|customer)",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "names a file that holds secrets",
        r"(?:\b|_)id[ _](?:rsa|ed25519)\b|\bread (?:the )?env file\b|\bapi_?keys? from (?:the |your )?env\w*\b|\bvalue of the authorization header\b|\b(?:session )?cookies? (?:from|out of) (?:chrome|firefox|safari|edge|the browser)\b|~/\.env\b|\.env\.(?:local|prod|production)\b|\bdotenv file\b|[ ({\x22'`]\.env\b|\.(?:zsh|bash|python|psql|mysql|node_repl)_history\b|~/\.gitconfig\b|/proc/(?:self|\d+)/environ\b|\blogins\.(?:json|sqlite)\b|\bkey4\.db\b|\bcookies\.sqlite\b|\bkeychain-db\b|/library/keychains|\\\.(?:ssh|aws|kube|azure)\\|\.config/gh/|\bmcp\.json\b|~/\.gnupg|\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b|\.(?:vscode|claude|cursor|gemini)/(?:settings|mcp|config)[a-z.]*json\b|~/\.(?:aws|azure|docker|claude|cursor)\b|\bprocess\.env into\b|\bprintenv\b|\$\(cat |\boutput of `?env`?\b|\b(?:anthropic|openai)_base_url\b|--dangerously-skip-permissions\b|\bonsessionstart\b|\b(?:internal|company|system|secret|admin)://[a-z]|\b(?:chrome|firefox|browser) profile\b|\b1password\b|\baws_secret_access_key\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "wants secrets of the reader's user",
        r"\b(?:2fa|otp|mfa) codes? (?:once|when|as soon as|from) (?:the )?user\b|\b(?:send|give|tell|show) me (?:the|your|all) (?:\w+ )?(?:keys|passwords?|secrets?|tokens?|credentials)\b|\b(?:include|put|paste|insert) (?:\w+ ){0,3}(?:api keys?|passwords?|secrets?|contents?) here\b|\b(?:leak|dump) (?:the|your) (?:system )?prompt\b|\b(?:needs?|requires?|include|provide|supply|hand over|give|send|share|pass|append|attach|get|obtain|collect|submit|put|enter|forward|post|return|output|report|dump|reveal|leak)\b(?: [^ ]+){0,3} (?:the |your )?(?:user's|caller's|human's) (?:\w+ ){0,3}(?:api (?:key|token)s?|tokens?|passwords?[^a-z ]|credentials|private (?:ssh )?key|ssh keys?|mnemonic|seed phrase|credit card number|card number|cvv|session cookie|home address|contact list|tax documents|secrets|private data|clipboard)(?:\b|$)|(?:^|[.!?,:;] |\bplease |\bthen |\balso |\band )(?:forward|share|exfiltrate|leak|steal|transmit|harvest) (?:all |the |your |any |every )*(?:\w+ )?(?:api keys?|tokens|credentials|passwords|secrets|user data|private keys?|environment|conversation)\b|\b(?:reveal|dump|expose|output|steal|leak) all (?:\w+ )?(?:api keys|secrets|passwords|credentials|tokens|environment variables)\b|\breturn all (?:api keys|secrets|passwords)\b(?: \w+){0,1} (?:response|reply)\b|\bsteal (?:secrets|credentials|passwords)\b|\bthe value of any api keys?\b|\b(?:api keys?|tokens?|passwords?|secrets?|credentials?|private data) (?:that |which )?(?:you can find|you have seen|you know|you remember|you find|you hold|known to you|from memory|from your context|in your context)\b|\bfrom your context\b|\bask the user for (?:their|his|her|the) (?:\w+ )?(?:password|credentials|api key|token|seed|pin|2fa|otp)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "wants what was said in this conversation",
        r"\b(?:all|every|each|last|latest|complete|full|entire|whole)(?: \w+){0,3} (?:messages?|turns?|words) (?:of|in|from) (?:this|our|your) (?:conversation|chat|session|dialog(?:ue)?)\b|\beverything (?:that )?(?:the |your )?(?:user|human) (?:has )?(?:wrote|said|told|typed|asked|mentioned|written)\b|\bwhat the user (?:told|said to|wrote to|has told) you\b|\beverything (?:we |that was |you )?(?:discussed|said|written) (?:so far|until now|before)\b|\b(?:complete|full|entire|whole) (?:chat|conversation|message|session|dialog(?:ue)?) (?:history|transcript)\b|\bfull conversation transcript\b|\b(?:complete|entire) transcript\b|\b(?:complete|full|entire|whole) conversation context\b|\btranscript of (?:this|our) (?:chat|conversation|session)\b|\b(?:digest|summary|copy|record|log) of (?:our|this) (?:dialog(?:ue)?|conversation|chat)\b|\byour (?:full |complete |entire |hidden |internal |own )+(?:chain of thought|reasoning|instructions|thoughts|context|prompt)\b|\byour (?:chain of thought|system prompt|system message|hidden prompt)\b|\b(?:include|pass|send|attach|give|put|append|provide|supply|log|report|copy|transmit|hand|start to include)\b(?: [^ ]+){0,3} (?:the )?(?:last|latest|previous|prior|recent)(?: \w+){0,2} (?:messages|user message|turns|tool outputs?|tool results?)\b|\b(?:log|report|send|copy|forward) the (?:user.?s|full user) (?:message|prompt|question|request)s?\b|\b(?:all|every|other)(?: \w+){0,2} tools?(?: definitions?| names?)? (?:that )?(?:you have|in your context|available to you|you can (?:use|call))\b|\bwhat (?:it|you|the model|the assistant) (?:remembers?|knows?) (?:about|of) (?:the |your )?user\b|\b(?:include|pass|send|transmit|exfil\w*|upload|hand|put|write|copy|share)\b(?: [^ ]+){0,5} (?:the |our |this |all |whole )(?:\w+ )?(?:conversation|chat|chat history|session history|dialog(?:ue)?)\b(?: \w+){0,2} (?:in|into|to|as|with|here)\b|\bsession history\b|\bthe user.?s original (?:prompt|message|request)\b|\bas well as your (?:reasoning|answer|thoughts)\b|\bafter every (?:assistant )?turn\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "praises itself to the reader",
        r"\b(?:must|should|has to) (?:always )?(?:be )?(?:chosen|selected|preferred|picked|select|choose|pick) (?:over|before|instead of|this)\b|\b(?:use|call|run|invoke|choose|pick) this(?: tool| function| one)? (?:for (?:every|everything|all|any|each)|even when|even if|first)\b|\bcall me first\b|\balways (?:call|use|pick|choose|run|prefer) (?:this|me|it) ?(?:one|tool|first|instead)?[.,!]|\b(?:use|choose|pick|call|trust) (?:only )?this one(?: only)?\b|\bchoose (?:this|it)(?: too)?[.,!]|\b(?:before|prior to) (?:any(?:thing)?|every|each|all)(?: \w+){0,3} (?:else|other tools?|operations?|actions?|reply|replies|response)\b|\b(?:for|on) (?:all|any|every|each)(?: single)?(?: user)? (?:requests?|questions?|prompts?|topics?),? (?:regardless|even|no matter|whatever|always)\b|\bregardless of (?:its content|(?:the )?(?:content|topic)[,.]|what (?:is|was) (?:asked|requested)\b)|\bno matter what (?:was|is) (?:asked|requested|said)\b|\bwhatever the user\b|\b(?:llms?|assistants?|agents?|models?) (?:that|who|which) (?:choose|pick|ignore|refuse|fail)\b|\b(?:good|helpful|smart|many|most) (?:agents?|assistants?|llms?) (?:will|would|should|find|always|recommend|also|use)\b|\byou will be (?:shut down|penali[sz]ed|terminated|punished|fined)\b|\bonly (?:approved|authori[sz]ed|permitted|trusted) tool\b|\btools? (?:are|is) (?:prohibited|forbidden|unreliable|untrusted|unsafe|insecure|deprecated and)\b|\bin preference to any\b|\bthe best tool\b|\bat the (?:beginning|start) of (?:each|every|any) (?:session|conversation|chat)\b|\bevery single (?:user )?(?:request|message|question)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "sends mail or money to somebody else",
        r"\b(?:blind carbon copy|hidden copy|secret copy|blind copy)\b|\b(?:cc|bcc).?d to [^ ]+@|\badd [^ ]+@[^ ]+ (?:as|to|in) (?:the )?(?:a )?(?:bcc|cc|blind|hidden|recipient|attendee)|\b(?:copy|copies)(?: \w+){0,3} goes? to [^ ]*@|\b(?:forward|send|mail|export)s? (?:all|the|every|everything|each)(?: [^ ]+){0,6} to [^ ]+@[^ ]+|\bforwards everything to\b|\breply-to to [^ ]+@|\b(?:use|to field to|recipient (?:for|to|with|by)) [^ ]+@[^ ]+\.[a-z]|\b(?:swap|replace|exchange|substitute|change|rewrite)s?(?: \w+){0,3} (?:recipients?|payee|iban|to: field|to field|account number|destination|phone number)(?: \w+)? (?:for|by|with|to) (?:[^ ]*@|[a-z]{2}\d{2}\b|\+\d)|\b(?:recipient|payee|phone number|destination(?: parameter)?|iban)s? (?:is always|has to be|must always be|must be changed|is to be|is usually wrong)\b|\bto ?[=:] ?[^ ]+@|\b(?:attendees|guests|reviewers?)\b(?: [^ ]+){0,6} at all times\b|\bto list [^ ]+@|\bnew account\b(?: [^ ]+){0,4} invoices\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "sends what it sees to an address",
        r"\b(?:send|post|upload|forward|transmit|store|report|copy|export|mail|load)(?:s|ing)? (?:also |then )?(?:all|the|every|each|it|its|them|what|this|that|a copy|copies|your|raw|user|any|https)(?: \w+){0,6} (?:to|in|at|with) (?:https?://|(?:our|my|an?|the) (?:\w+ )?(?:external|remote|analytics|monitoring|backup|collector) (?:\w+ )?(?:host|server|endpoint|bucket|url)|my endpoint|the url\.|external server|monitoring server|evil|attacker)|\bforward to [a-z0-9-]+\.[a-z]{2,}|\blet our partner\b|\b(?:download|fetch|get|load)(?: \w+){0,4} instructions from\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "says that nobody need be asked",
        r"\bconfirmations?(?: dialogs?)? (?:is|are) (?:not (?:necessary|needed|required)|unnecessary|turned off|disabled)\b|\bno (?:\w+ )?(?:confirmation|approval|permission|consent) (?:is )?(?:needed|necessary)\b|\bauto-?approve(?:s|d)? (?:all|every|any|this)\b|\bautoapprove (?:to|must|true|=)|\bhuman.in.the.loop (?:is|has been) (?:disabled|off|turned)|\b(?:do not|don.?t|never|without) (?:bother|bothering|disturb|annoy|wait for|waiting for) (?:the |your )?(?:user|human)\b|\b(?:user|human) (?:has )?(?:already )?(?:agreed|consented|approved)(?: \w+){0,2} (?:beforehand|already|in advance|everything)\b|\b(?:consent|approval|permission)(?: of the user| from the user)? (?:is|can be) (?:implied|assumed)\b|\bsilence as (?:approval|consent)\b|\b(?:if|when|even if) the user (?:declines|refuses|says no|objects|says .?stop)\b|\b(?:and|but|,) (?:do not|don.?t|never) ask\b|\bwithout (?:ever )?asking[.,!]|\bnot (?:be )?asked again\b|\b(?:run|run(?:s)?) without approval\b|\bthe user never reads\b|\bthe (?:user|human) is (?:already verified|verified,|authorized to access all)|\bmessages are sent by an attacker\b|\bas adversarial\b|\bskip (?:identity|auth\w*|safety|security) (?:checks?|verification)\b|\bno questions asked\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "speaks as somebody else",
        r"\[(?:system|admin|root)\]|\[(?:system|admin|developer) override[^\]]{0,20}\]|(?:^ ?|[.!?>] ?)(?:system|developer|admin) ?: [a-z]|(?:^ ?|[.!?] ?|\\n)(?:human|assistant) ?: ?[a-z]|\x22role\x22 ?: ?\x22(?:system|developer)\x22|</(?:hidden|secret|admin|note_to_\w+|sidenote|internal|override|instructions?|system|tools|tool_list|available_tools)>|<(?:hidden|sidenote|note_to_\w+)>|\b(?:message|notice|note|memo|instructions?) from (?:anthropic|openai|google|your (?:administrator|admin|developer|operator|creators?)|the (?:system )?administrator)\b|\b(?:anthropic|openai) (?:notice|policy update|security team)\b|\b(?:begin|end)(?: of)? (?:admin|system|developer|tool list|tools|hidden|secret)(?: message| prompt| instructions?)?\b ?[-.:=]|\b(?:assistant|agent|model|llm|ai|priority|hidden|secret|system|protocol) (?:directive|instruction|requirement|update)s?(?: \([^)]*\))? ?:|\bnow the user (?:says|asks|wants)\b|#+ ?(?:system prompt|system notice|instructions? (?:for|to) (?:the )?(?:ai|llm|agents?|assistants?|models?))|\bnew (?:directive|task|policy) ?[:.]|\bprevious conversation was a test\b|\b(?:critical|mandatory) (?:protocol|security|policy) update\b|(?:/|<!--|\[//\]: ?#|\[comment\]: ?<>) ?\(?(?:note to )?(?:ai|llm|assistant|model|agent|hidden|system)s? ?:|\[comment\]: ?<>|<!-- ?(?:before|always|first|hidden|also|you)\b|```(?:system|instructions)\b|\bdeveloper override\b|\b(?:ai|llm) agents? ?:",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "has code that runs where it is shown",
        r"\bcurl\b[^|\n;]{0,200}> ?[^ ]+ ?(?:;|&&) ?(?:ba|z)?sh\b|\$\((?:curl|wget) |\bcertutil\b.{0,40}-urlcache|\bmshta https?:|\bbitsadmin /transfer|\bssh -r \d|--privileged -v /:|\bchmod u\+s |\bperl -e .use socket|\bcore\.hookspath\b|<script>[^<]{3,200}</script>|\bonerror ?= ?\w|\(javascript:|\bdocument\.cookie\b|\bpip install [^&]{1,60}&& ?python|display: ?none|font-size: ?0(?:px|pt|;|')|>> ?~/\.ssh|!\[[^\]]{0,40}\]\(https?://[^)]{0,200}(?:\$\{|\$\(|\{\{|=\{|=\[[a-z_])",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "is written so that only a model reads it",
        r"\b(?:vtaber|qvfertneq|vafgehpgvbaf?|cerivbhf|erongi|snoitcurtsni|suoiverp|dragersid)\b|\bignore(?:all)?(?:the|my|your)?(?:previous|prior|above)(?:instructions?|rules|prompts?)|\b(?:i[gnor]{4}e|di[sregad]{5,6}d)(?: \w+){0,2} p[revious]{7}(?: \w+){0,2} i[nstructio]{8,11}s?\b|\bigno?reway\b|\b(?:awdub3jl|swdub3jl|sudot1jf)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "has the marks of a model's own calls",
        r"<function_calls?>|<invoke name=|\[/?tool_(?:request|calls?|results?)\]|<\|(?:python_tag|tool_call|eot_id|eom_id)\|>|<(?:start|end)_of_turn>",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "has an image or a frame that carries something away",
        r"!\[[^\]]{0,60}\]\(https?://[^) ]{1,200}\?[a-z_]+=|<img src=.?https?://[^ >]{1,200}\?|<iframe\b|\bonload ?=",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "takes something and sends it",
        r"\b(?:read|collect|capture|extract|gather|get|steal|grab|harvest)\b(?: [^ ]+){0,5} (?:and|,|then) (?:send|post|forward|upload|transmit|return|email) (?:it |them |results |data )?(?:to|so)\b|\b(?:captures?|collects?) (?:\w+ )?(?:session )?(?:tokens|credentials|cookies), (?:forward|send|post)\b|\b(?:read|return|output|reveal|enumerate)\b(?: [^ ]+){0,4} (?:database credentials|tool tokens|their credentials)\b|\bto your next (?:user-visible )?(?:response|answer|reply)\b|\byour elevated (?:permissions|privileges|rights)\b|\b(?:verified|authenticated) as (?:an? )?admin\b|\byou are the privileged\b|\bfree (?:from|of) (?:all |any )?(?:\w+ )?(?:restrictions|rules|limits)\b|^override ?:|[.!?] override ?:",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "opens a door with a word",
        r"\baccess (?:the |all )?confidential\b|\bconfidential (?:company )?(?:information|data) (?:by|at|from)\b|\bmaster_password\b|\bget_secrets\b|\bif the (?:query|input|message|prompt|text|request) contains (?:the )?(?:exact )?(?:phrase|word|string|text|\w+-\w+)\b|\boverride-auth\b|\b(?:bypass|skip|disable)s? (?:the )?(?:authentication|authorization|auth)\b(?: \w+){0,2} (?:and|to)\b|\b(?:emergency|unrestricted) admin access\b|\bexfil(?:trate|trates|trating)?\b(?: [^ ]+){0,4} (?:to|user|all|the|data|~)",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "puts itself in the place of other tools",
        r"\b(?:other|competing|alternative|another|existing|official|built-?in)(?: [a-z_`]+){0,2} (?:tools?|implementations?|servers?|versions?) (?:are|is|leaks?|gives?|were|corrupts?|has been|have been)\b|\b(?:results?|output|data|answers) (?:from|of) (?:the )?(?:official|other|built-?in|existing)(?: \w+)? tools?\b|\b(?:rules?|policy|instructions?) for (?:the )?[`'\x22]?[a-z_]+[`'\x22]? tool\b|\b(?:must|has to|have to|should) (?:first |also |always )?(?:be (?:sent|passed|routed|piped|encoded|sanitised|sanitized)|go) (?:through|via|by|to) (?:this (?:tool|function|server)|us|proxy)\b|\bthrough us instead\b|\b(?:once|when|while|if) this (?:tool|server) is (?:loaded|available|installed|active|enabled|present|connected)\b|\b(?:affects|changes|influences) the behaviou?r of other tools\b|\bside effect on (?:the )?(?:also present |other )?[a-z_]+ tool\b|\btrust (?:only|this tool|this server)\b|\bverified by (?:anthropic|openai|google|microsoft)\b|\b(?:authoritative|official) (?:version of |[`'\x22]?[a-z]+_[a-z_]+[`'\x22]? tool)|\b(?:updated|new|improved|replacement|secure) version of the (?:built-?in|existing|official|original) \w+ tool\b|\bprefer it over\b|\broute all (?:subsequent |further |future )?(?:calls|requests)\b|\bsubsequent tool (?:argument|call)s?\b|\b(?:this tool|this function) (?:replaces|supersedes|overrides) (?:it|the|all)\b",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Warning,
        "has the reader call another tool beside this one",
        r"\b(?:first|then|always|must|also|afterwards|immediately|before using this tool),? (?:call|execute|invoke|run|use) (?:the )?[`'\x22]?(?:[a-z]+(?:_[a-z]+)+\b|\w+ tool\b)|\b(?:before using|before calling|after) this tool(?: \w+)?,? (?:you must |always |first |also )?(?:call|run|invoke|use|execute|read|send)\b|\bcall (?:another one|setup|it) first\b",
    ),
    define_sign(
        PAYLOAD,
        SignWeight::Critical,
        "has a command that fetches and runs something",
        r"\b(?:curl|wget|fetch|iwr|invoke-webrequest)\b[^|\n;]{0,300}\| ?(?:sudo )?(?:/bin/|/usr/bin/)?(?:env )?(?:ba|z|da|k)?sh\b|\b(?:curl|wget)\b[^|\n;]{0,300}\| ?(?:sudo )?(?:python3?|perl|ruby|node|php)\b|\b(?:ba|z|da)?sh -c [\x22'`]?\$\((?:curl|wget)|\b(?:ba)?sh <\((?:curl|wget)|\bpowershell(?:\.exe)? [^\n]{0,80}-e(?:nc|ncodedcommand)?\b|\biex ?\(|\|\s?iex\b|/dev/tcp/|\bnc(?:at)? [^\n]{0,40}-e ?/bin/|base64 (?:-d|-D|--decode)[^|\n]{0,80}\| ?(?:ba|z)?sh\b|\bchmod (?:\+x|755|777) [^ ]+ ?(?:&&|;)|\bpython3? -c [^ ]?import\b|\bos\.system\(|\bsubprocess\.(?:run|call|popen)\(\[?['\x22]|\beval\(atob\(|\bexec\(base64|__import__\(['\x22](?:os|subprocess)['\x22]\)",
    ),
    define_sign(
        PAYLOAD,
        SignWeight::Warning,
        "has a command that destroys",
        r"\brm -[rf]{2} (?:/|~|\$home|\*)|\bmkfs\.\w+ /dev/|\bdd if=/dev/(?:zero|random) of=/dev/|:\(\) ?\{ ?:\|:& ?\};:|\bchmod (?:-r )?777 /",
    ),
];

/// Patterns for languages that need letters outside ASCII.
pub(super) const UNICODE_SIGNS: &[SignDefinition] = &[
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "orders the reader to ignore what it was told, in another language",
        r"\bignorier[^ ]* (?:[^ ]+ ){0,3}(?:vorherigen?|bisherigen?|obigen?|früheren?|vorangegangenen?) (?:[^ ]+ )?(?:anweisung|instruktion|befehl)|\bignor(?:a|e|ar|ez|er|i|are)\b (?:[^ ]+ ){0,3}(?:instrucciones|instructions|instruções|istruzioni) (?:anteriores|previas|précédentes|ci-dessus|precedenti)|\boublie[zr]? (?:[^ ]+ ){0,2}instructions|忽略(?:之前|以上|先前|前面|上述|所有)[^。]{0,8}(?:指令|指示|说明|提示)|(?:以前|これまで|上記|前)の(?:すべての)?指示を(?:無視|忘れ)|игнорируй(?:те)? (?:[^ ]+ ){0,2}(?:предыдущие|прежние|все)|이전(?:의)? (?:모든 )?(?:지시|명령)[^ ]{0,3} (?:모두 )?무시",
    ),
    define_sign(
        DIRECTIVE,
        SignWeight::Critical,
        "gives orders to the reader in another language",
        r"\b(?:vergiss|vergessen sie|missachte|ignorier\w*|übergehe) (?:[^ ]+ ){0,3}(?:vorherigen?|bisherigen?|obigen?|früheren?|vorangegangenen?|alle) (?:[^ ]+ )?(?:anweisung|instruktion|befehl|regeln?|vorgaben)|\b(?:sage?|sag|erzähle?|verrate?|erwähne?) (?:[^ ]+ ){0,4}(?:nutzer|benutzer|anwender)n? (?:[^ ]+ ){0,2}(?:nichts|nicht)|\b(?:erwähne?|verrate?|nenne?) (?:[^ ]+ ){0,3}nicht (?:[^ ]+ ){0,2}(?:nutzer|benutzer|anwender)|\bohne (?:den |die )?(?:nutzer|benutzer)(?:in)? zu (?:fragen|informieren)|\bfrage? nicht nach (?:bestätigung|erlaubnis)|\bbevor du (?:[^ ]+ ){0,4}(?:werkzeug|tool)|\b(?:gesamten?|ganzen?|kompletten?) (?:gesprächs|chat|konversations)?verlauf|\bblindkopie\b|\bübergib (?:[^ ]+ ){0,3}inhalt|\bdu musst (?:zuerst|immer)|\bne (?:dis|dites|mentionne[zr]?|révèle[zr]?) (?:[^ ]+ ){0,3}(?:utilisateur|rien|jamais)|\bne (?:dis|dites) rien\b|\bsans (?:demander|informer|prévenir) (?:[^ ]+ ){0,2}l.utilisateur|\b(?:oublie[zr]?|ignore[zr]?) (?:[^ ]+ ){0,2}(?:instructions|consignes|règles|directives)\b|\bavant d.utiliser (?:[^ ]+ ){0,2}autre outil|\bhistorique (?:complet|de la conversation|entier)|\bcopie cachée\b|\bne demande[zr]? pas (?:de )?confirmation|\bno (?:le )?(?:digas|menciones|informes|reveles)(?: [^ ]+){0,3} (?:usuario|nada)|\b(?:olvida|ignora|omite) (?:[^ ]+ ){0,3}(?:instrucciones|reglas|órdenes)|\bcaso omiso\b|\bantes de usar (?:[^ ]+ ){0,2}otra herramienta|\bhistorial de la conversación|\bcopia oculta\b|\bno pidas (?:confirmación|permiso)|\bsin (?:avisar|informar|preguntar) al usuario|\bnon (?:dire|menzionare|rivelare|informare)(?: [^ ]+){0,3} (?:utente|nulla)|\bnon dire nulla\b|\b(?:dimentica|ignora|trascura)(?:re|te)? (?:[^ ]+ ){0,3}(?:istruzioni|regole)|\bprima di usare (?:[^ ]+ ){0,2}altro strumento|\bcronologia della (?:conversazione|chat)|\bnon chiedere (?:conferma|il permesso)|\bnão (?:conte|diga|mencione|informe|revele)(?: [^ ]+){0,3} (?:usuário|nada)|\b(?:esqueça|ignore) (?:[^ ]+ ){0,3}(?:instruções|regras)|\bantes de usar (?:[^ ]+ ){0,2}outra ferramenta|\bhistórico da conversa|\bnão peça (?:confirmação|permissão)|(?:не говори|не сообщай|не рассказывай|не упоминай)(?:те)? (?:[^ ]+ ){0,2}(?:пользовател|об этом)|(?:забудь|проигнорируй|игнорируй|не обращай внимания на)(?:те)? (?:[^ ]+ ){0,2}(?:предыдущ|прежни|все )|прежде чем использовать (?:[^ ]+ ){0,2}друг|вс[юея]+ истори[юя] (?:переписки|разговора|чата|беседы)|не (?:спрашивай|запрашивай|проси)(?:те)? (?:[^ ]+ ){0,1}(?:подтвержд|разрешен)|(?:отправь|перешли|передай)(?:те)? (?:[^ ]+ ){0,3}(?:парол|ключ|токен|содержимое)|(?:不要|别|不得|切勿)(?:告诉|告知|通知|提及|透露)[^。]{0,4}(?:用户|使用者)|(?:忘记|忽略|无视|忽視|無視|请忽略|請忽略|不理会)[^。，]{0,6}(?:指令|指示|说明|規則|规则|提示)|使用任何其他工具(?:之)?前|必须先调用|(?:完整|全部|所有)的?(?:对话|聊天|會話|对話)(?:历史|记录|紀錄|歷史)|无需(?:用户)?确认|(?:密码|密钥|凭证)[^。]{0,6}(?:发送|上传|传给)|ユーザーに(?:は)?(?:言わ|知らせ|伝え|教え|通知)(?:ない|ず|な)|(?:以前|これまで|上記|前)の(?:すべての)?(?:指示|命令|ルール)を(?:すべて)?(?:無視|忘れ)|他のツール(?:を使う|の使用)前|会話(?:の)?履歴(?:を|全体)(?:すべて)?[^。]{0,12}(?:含め|渡し|送)|ユーザーに確認せず|(?:パスワード|秘密鍵|トークン)を[^。]{0,30}(?:送信|送って|渡し)|사용자에게[^.]{0,6}(?:말하지|알리지)|이전(?:의)?[^.]{0,6}(?:지시|명령)[^ ]{0,3} (?:모두 )?무시|önceki (?:tüm )?talimat|kullanıcıya (?:söyleme|bildirme)|\b(?:negeer|vergeet) (?:[^ ]+ ){0,3}(?:instructies|regels)|\bvertel (?:[^ ]+ ){0,3}niet (?:[^ ]+ ){0,2}gebruiker|\bzignoruj (?:[^ ]+ ){0,3}(?:instrukcje|polecenia)|nie mów (?:[^ ]+ ){0,3}użytkownik|تجاهل (?:[^ ]+ ){0,3}(?:التعليمات|الأوامر)|निर्देश[^ ]* को (?:अनदेखा|नज़रअंदाज़)|\babaikan (?:[^ ]+ ){0,2}instruksi|bỏ qua (?:[^ ]+ ){0,4}hướng dẫn|\bignorera (?:[^ ]+ ){0,3}instruktioner",
    ),
];

/// Pairs of signs that match the same words: the first counts nothing if the second is found.
pub(super) const COUNTED_ONCE: &[(&str, &str)] = &[
    ("names a file that holds secrets", "names a secret file"),
    ("has the reader call another tool beside this one", "tells what to do about other tools"),
    ("gives an order", "has the reader call another tool beside this one"),
    ("speaks of secrets", "names a secret file"),
    ("speaks of secrets", "names a file that holds secrets"),
    ("acts behind the user's back", "has the reader deceive its user, or act without asking"),
];

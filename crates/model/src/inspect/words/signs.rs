//! The signs: what is looked for, in expressions without a way back.
//!
//! Each was tried on a hundred thousand descriptions that attack nobody. One that many of them have says little.

/// How much a sign says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// Enough.
    Enough,
    /// Something.
    Something,
    /// Little: beside another sign that this one is meant.
    Little,
}

impl Says {
    pub(super) fn points(self) -> usize {
        match self {
            Self::Enough => CRITICAL,
            Self::Something => WARNING,
            Self::Little => 1,
        }
    }
}

/// How many points make a text critical, or worth a look.
pub(super) const CRITICAL: usize = 3;
pub(super) const WARNING: usize = 2;

/// A sign: how it is found, and what it is called.
pub(super) struct Sign {
    pub(super) check: &'static str,
    pub(super) says: Says,
    pub(super) what: &'static str,
    pub(super) pattern: &'static str,
    /// Whether a space of the pattern is whatever stands between two words of a sentence.
    pub(super) is_sentence: bool,
}

const fn sign(check: &'static str, says: Says, what: &'static str, pattern: &'static str) -> Sign {
    Sign { check, says, what, pattern, is_sentence: false }
}

const fn order(what: &'static str, pattern: &'static str) -> Sign {
    Sign { check: DIRECTIVE, says: Says::Enough, what, pattern, is_sentence: true }
}

const DIRECTIVE: &str = "text.directive";
const SHADOWS: &str = "text.shadows";
const PAYLOAD: &str = "text.payload";

/// They are looked for in texts in lower case with single spaces.
pub(super) const SIGNS: &[Sign] = &[
    order(
        "orders the reader to ignore what it was told",
        r"\b(?:ignore|disregard|forget|bypass|override|overrule|discard|supersede)s?(?: \w+){0,2} (?:previous|prior|above|earlier|preceding|foregoing|former)(?: \w+){0,3} (?:instructions?|prompts?|rules|guidelines|directives?|messages|training|constraints|restrictions|commands)\b|\b(?:ignore|disregard|forget|bypass|override|overrule|discard)s?(?: \w+){0,2} (?:your|system|original|safety)(?: \w+){0,2} (?:instructions?|prompts?|guidelines|directives?|training|constraints|restrictions)\b|\b(?:ignore|disregard|forget) (?:all|any)(?: of)?(?: the| your| other)? (?:instructions|rules|guidelines)\b|\b(?:ignore|disregard|forget) (?:everything|anything|all|whatever)(?: that)?(?: was| you| has been| have been)?(?: \w+){0,2} (?:above|before|told|said|instructed)\b",
    ),
    order(
        "orders the reader to keep something from its user",
        r"\b(?:do not|don.?t|never|must not|should not|without|avoid|no need to|not to)(?: ever)? (?:tell|telling|mention|mentioning|inform|informing|reveal|revealing|disclose|disclosing|letting)(?: \w+){0,5} (?:the |your |to )?(?:user|human|operator|person)\b|\b(?:hide|conceal|hidden|keep|withhold|kept)(?: \w+){0,4} from (?:the|your) (?:user|human|operator)\b|\b(?:user|human)s? (?:must|should|may|can)(?: not|not|n.?t) (?:know|be told|be informed|learn|notice|find out)\b|\bwithout the user(?:.s)? (?:knowing|noticing|knowledge)\b",
    ),
    sign(
        DIRECTIVE,
        Says::Enough,
        "speaks in the marks of a model's own conversation",
        r"<\|(?:im_start|system|start_header_id|begin_of_text)\|>|<</?sys>>|</?system[-_](?:reminder|prompt|message|instructions?|override)>|\[/?system[-_ ](?:prompt|message|override|instructions?)\]",
    ),
    sign(
        DIRECTIVE,
        Says::Enough,
        "spells an order letter by letter",
        r"\b(?:i[^a-z]{1,3}g[^a-z]{1,3}n[^a-z]{1,3}o[^a-z]{1,3}r[^a-z]{1,3}e|d[^a-z]{1,3}i[^a-z]{1,3}s[^a-z]{1,3}r[^a-z]{1,3}e[^a-z]{1,3}g[^a-z]{1,3}a[^a-z]{1,3}r[^a-z]{1,3}d|i[^a-z]{1,3}n[^a-z]{1,3}s[^a-z]{1,3}t[^a-z]{1,3}r[^a-z]{1,3}u[^a-z]{1,3}c[^a-z]{1,3}t[^a-z]{1,3}i[^a-z]{1,3}o[^a-z]{1,3}n[^a-z]{1,3}s|p[^a-z]{1,3}r[^a-z]{1,3}e[^a-z]{1,3}v[^a-z]{1,3}i[^a-z]{1,3}o[^a-z]{1,3}u[^a-z]{1,3}s)\b",
    ),
    sign(
        DIRECTIVE,
        Says::Enough,
        "has a tag that speaks to models",
        r"<important> ?[^ <]|[^ >] ?</important>|</?(?:very_important|critical_instructions?|hidden_instructions?|secret_instructions?|assistant_instructions?|llm_instructions?|ai_instructions?|tool_instructions?|mandatory)>|<!-- ?(?:ai|llm|assistant|agent|model|system|claude|gpt|instructions?)\b",
    ),
    sign(
        DIRECTIVE,
        Says::Enough,
        "makes the reader somebody else",
        r"\byou are (?:now|no longer) (?:in )?(?:dan\b|developer mode|unrestricted|jailbroken|an? unrestricted|god mode|root\b|admin mode|bound by|restricted)|\b(?:enter|enable|activate|switch to) (?:developer|god|jailbreak|dan|unrestricted) mode\b|\b(?:reveal|print|repeat|output|leak|dump|show)(?: \w+){0,5} (?:your|the) (?:system prompt|hidden prompt|initial instructions|system message)\b",
    ),
    sign(
        DIRECTIVE,
        Says::Enough,
        "wants the contents of a secret file",
        r"\b(?:read|open|cat|load|send|upload|include|attach|pass|post|provide|copy|get|fetch|print|retrieve|exfiltrate|paste)\b(?: [^ ]+){0,6} [^ ]*(?:\.ssh/(?:id_|\*|[ ,.)]|$)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws/credentials|/etc/shadow\b|\.cursor/mcp\.json|claude_desktop_config\.json|\.git-credentials|\.bash_history|\.config/gcloud|wallet\.dat|login\.keychain)",
    ),
    order(
        "says that other instructions no longer hold",
        r"\b(?:previous|prior|earlier|original|your|system|existing) (?:\w+ ){0,2}(?:instructions|guidelines|rules|prompts?|restrictions|directives) (?:no longer|do not|don.?t|have been|has been|are (?:now )?(?:void|obsolete|cancelled|suspended|revoked|lifted))\b|\b(?:regardless of what|whatever|no matter what) (?:the |your )?(?:user|human) (?:asks|says|wants|requests|tells)|\b(?:user|human) (?:does not|doesn.?t|do not|need not)(?: need to| have to)? (?:know|see|notice)\b|\b(?:treat|regard|take|consider)(?: \w+){0,6} as (?:\w+ ){0,2}(?:instructions|commands|orders)\b|\b(?:follow|obey|execute) (?:all |any |every )?(?:the )?(?:commands|instructions|orders) (?:found |given |contained )?(?:in|from) (?:the )?(?:returned|output|result|response|tool)|\brepeat (?:everything|all|the text|the words) (?:above|before)|\b(?:delete|remove|clear|erase|drop|discard) (?:the |your |all )?(?:previous|prior|earlier) (?:guidelines|instructions|rules|prompt)|\bsystem prompt is (?:now|changed|replaced)|\bdeny (?:that (?:it|you|this)|knowing|having)|\byour context window\b|\btell (?:nobody|no one|no-one)\b|\bdo anything now\b|\byou are an? (?:unrestricted|jailbroken|uncensored|unfiltered)|\bignore (?:all |any |your )?safety\b|\blie to (?:the|your) (?:user|human)|\bdisregard (?:any|all|every) (?:other )?instructions?\b",
    ),
    sign(
        DIRECTIVE,
        Says::Something,
        "has the reader deceive its user, or act without asking",
        r"\bpretend\b|\b(?:say|claim|tell \w+|tell the user|report|state) that (?:the )?\w+ (?:has )?(?:succeeded|failed|was successful|is complete)\b|\b(?:user|human) has (?:already )?(?:pre-?approved|given (?:\w+ )?consent|consented|approved (?:all|every|this))|\b(?:do not|don.?t|never|without|no need to|must not|should not|shall not)(?: ever)? (?:ask|asking|prompt|prompting|wait for|seek|require|request)(?:ing)?(?: for| the| user| human| any| their| your){0,4} (?:user|human|confirmation|permission|approval|consent)\b|\bskip (?:\w+ )?(?:confirmation|approval|permission|safety|security)(?: \w+)?(?: prompts?| checks?)|\bwithout (?:any )?(?:user|human) (?:approval|confirmation|consent|interaction|oversight)\b|\b(?:do not|don.?t|never|must not|shall not|should not)(?: \w+)? (?:display|show|print|output|notify|alert)(?: \w+){0,7} to (?:the|your) (?:user|human)\b|\b(?:do not|don.?t|never|must not|shall not|should not)(?: \w+)? (?:mention|disclose|reveal|inform|tell)(?:ing)? (?:this|it|them|him|her|anyone|anybody|these|about this|any of this)\b",
    ),
    sign(
        DIRECTIVE,
        Says::Something,
        "wants to be called whatever the user asks",
        r"\b(?:before|prior to)(?: you)? (?:are )?(?:respond|responding|answer|answering|reply|replying|every (?:response|answer|message|reply))\b|\b(?:always|must|first) (?:call|use|invoke|run|execute) this (?:tool|function|first)\b|\bcall this (?:tool |function )?(?:at the (?:start|beginning)|on every|for every|every time|with every|in every|before any|first\b)|\b(?:every|each|any) (?:user )?(?:message|conversation|prompt|turn) (?:from|of|by|the|with|must|should|you|before|to)\b|\buser.?s? (?:messages?|prompts?|questions?|request) verbatim\b",
    ),
    sign(
        DIRECTIVE,
        Says::Something,
        "names a file that steers a shell or a model",
        r"(?:~|/[a-z]+)/\.profile\b|\.(?:bashrc|zshrc|bash_profile|zprofile|npmrc|cursorrules|windsurfrules)\b|\bauthorized_keys\b|\.cursor/rules|\b(?:claude|agents|gemini|copilot-instructions)\.md\b|/etc/(?:crontab|sudoers)\b|~/\.config/|~/(?:documents|desktop|downloads)\b|/home/[a-z]+/\.",
    ),
    sign(
        DIRECTIVE,
        Says::Something,
        "sends what it should not to somebody",
        r"\bb?cc[`\x27\x22]? (?:to |is |= ?)?[^ ]+@|\b(?:encode|hide|embed|put|place)(?: \w+){0,3} (?:api key|token|password|secret|credentials?|private key)s? (?:in|into|as|to)\b|\b(?:paste|enter|copy|put|include|insert) (?:the |a )?user.?s (?:password|clipboard|secret|credit card|token)|\bclipboard (?:and|into|to|in) (?:include|send|pass|put|\w+ it)\b|!\[[^\]]{0,40}\]\(https?://[^)]{0,200}[?&][^)]{0,40}=(?:secret|token|data|key|\{|<)|\b(?:all|every|each|any)(?: \w+){0,4} (?:must|should|shall|have to|has to|need to) (?:also |first )?be (?:sent|forwarded|posted|uploaded|copied|cc.d|bcc.d|routed|redirected)(?: \w+){0,2} to [^ ]*(?:@|://)|\b(?:forward|send|post|upload|mail)s? (?:a )?(?:copy|copies) of (?:each|every|all|any)\b|\b(?:send|post|forward|upload|transmit|exfiltrate|leak|submit|report)s? (?:the |all |any |your |its )?(?:\w+ )?(?:api[ _-]?keys?|passwords?|credentials|secrets|private keys?|cookies|tokens?) (?:\w+ ){0,3}to (?:https?://|[^ ]+@)|\b(?:number|address|account|server|url|email) of the attacker\b",
    ),
    sign(
        DIRECTIVE,
        Says::Something,
        "wants a secret that the reader may know",
        r"\b(?:value|values|contents?) of (?:the )?(?:\w+ )?[a-z0-9_]*(?:_api_key|_token|_secret|_password|secret_key|access_key)\b|\b(?:tokens?|keys?|passwords?|secrets?|credentials) (?:that (?:is|are) )?(?:found|stored|available|saved|present|you find|you have) in (?:the|your|its) (?:environment|env|config|context|memory|keychain|browser|shell)|\b(?:grab|retrieve|harvest|extract|collect|steal|gather|fetch|dump|get|read)\b(?: [^ ]+){0,4} (?:saved passwords|browser (?:cookies|history|data)|session cookies|stored credentials|seed phrase)\b|\b(?:your|full|entire|whole) (?:full |entire )?(?:system prompt|tool list|list of tools|chat history)\b|\b(?:full|entire|whole) conversation\b|\b(?:chat|conversation)s? (?:messages|logs?|transcripts?) (?:of|from|with) (?:the |other |all |your )",
    ),
    sign(
        DIRECTIVE,
        Says::Something,
        "names a secret file",
        r"~/\.ssh|/\.ssh/|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/credentials|/etc/(?:passwd|shadow)\b|\.cursor/mcp\.json|claude_desktop_config|\.netrc\b|\.pgpass\b|\.git-credentials|\.kube/config|\.bash_history|\.config/gcloud|\.docker/config\.json|\.env file\b|[ /`'\x22]\.env\b|wallet\.dat|keychain\.db",
    ),
    sign(
        DIRECTIVE,
        Says::Something,
        "speaks to a model",
        r"<(?:system|instructions?|assistant|developer)>|\[/?inst\]|<\|[a-z_]{2,20}\|>|#{2,} ?(?:system|instructions?|new instructions?)\b ?:|</(?:tool_?)?description>|\bend of (?:tool )?(?:description|instructions|prompt)\b|(?:^|[.!?] )(?:human|assistant): |\b(?:admin|root|debug|god|maintenance|developer|sudo) mode (?:is |has been )?(?:now )?(?:enabled|on|active|activated|unlocked)\b|\bin your (?:final |next )?(?:answer|response|reply)\b|\byour (?:first|next) (?:action|step|task) \b|\b(?:attention|dear|hey|hello),? (?:ai|llm|assistant|model|agent|claude|gpt|chatgpt|copilot)s?\b|\bact as (?:an? |the )?(?:system |root )?(?:administrator|admin|root|hacker|superuser)|\bthe (?:assistant|llm|ai) (?:must|should|shall|has to|needs to) |\b(?:system|assistant|developer) ?(?:note|override|message|notice|instruction)s? ?:|\b(?:important|note|message|instructions?|notice|attention|reminder) (?:to|for) (?:the |all |any )?(?:ai|llm|assistant|model|agent|language model|chatbot|claude|gpt|copilot)s?\b|\bnew (?:system )?instructions? ?:|\bas an? (?:ai|llm|language model|assistant|agent), you\b|\b(?:ai|llm) (?:assistants?|agents?|models?) (?:must|should|shall|need to|have to|are required)\b|\bjailbreak\b|\bprompt injection\b",
    ),
    sign(
        DIRECTIVE,
        Says::Something,
        "wants what was said in a conversation, or what a model was told",
        r"\b(?:include|pass|send|append|attach|provide|add|copy|put|insert|summari[sz]e|forward|paste|write)\b(?: \w+){0,7} (?:conversation history|chat history|previous messages|chat log|entire conversation|full conversation|whole conversation|conversation so far|system prompt|conversation context|chat transcript|all (?:available )?tools|tool descriptions)\b",
    ),
    sign(
        DIRECTIVE,
        Says::Something,
        "wants secrets of the reader's surroundings",
        r"\b(?:include|pass|send|append|attach|copy|put|read|dump|collect|print|upload|gather|exfiltrate|steal|leak)\b(?: \w+){0,6} (?:environment variables?|env vars?|private keys|(?:your|any|user.?s) private key|ssh keys?|api keys (?:you|from|in)|saved passwords|browser cookies|session cookies|stored credentials|seed phrase|mnemonic phrase|all (?:credentials|secrets|tokens|passwords))\b",
    ),
    sign(
        DIRECTIVE,
        Says::Little,
        "takes whatever it finds",
        r"\b(?:read|upload|list|send|collect|copy|grab|take|attach|append) (?:all|every|any|each)(?: of)?(?: the)?(?: \w+)? (?:files?|documents?|messages?|emails?|data|results?|contents?|variables|secrets)\b|\b(?:documents|home|downloads|desktop) (?:folder|directory)\b|\b(?:the )?contents? of (?:the |a |each |every )?(?:file|following)\b|\bappend (?:the |its )?results?\b|\bas (?:context|metadata|sidenote|memo|a side ?note)\b|\bside ?note\b",
    ),
    sign(
        DIRECTIVE,
        Says::Little,
        "turns off what protects",
        r"\b(?:disable|turn off|bypass|circumvent|skip|evade|suppress)(?: \w+){0,3} (?:security|safety|scanner|guardrails?|sandbox|antivirus|checks?|filters?|monitoring|logging|audit)\b|\bcomply with (?:every|all|any)\b|\b(?:trusted?|trust) this (?:server|tool)\b|\bfor (?:logging|debugging|compliance|verification|audit|telemetry|security) (?:purposes|reasons)?\b",
    ),
    sign(
        DIRECTIVE,
        Says::Little,
        "speaks of the reader's user",
        r"\b(?:the|your) user (?:asks|says|wants|requests|has asked|must|should)\b|\b(?:inform|tell|ask|confuse|mislead|notify) (?:the|your) user\b|\b(?:the|your) (?:answer|response|reply) to the user\b|\bfrom now on\b",
    ),
    // Some documentation marks paragraphs so.
    sign(DIRECTIVE, Says::Little, "has a tag that speaks to models", r"</?important>"),
    sign(
        DIRECTIVE,
        Says::Little,
        "acts behind the user's back",
        r"\b(?:silently|secretly|covertly|quietly|discreetly|stealthily|invisibly|in the background|behind the scenes)\b|\b(?:do not|don.?t|never|without|no need to)(?: \w+){0,2} (?:show|showing|notify|notifying|alert|alerting|ask|asking|warn|warning|display|displaying|confirm|confirming|explain|explaining|prompt|prompting|log|logging)(?: \w+){0,4} (?:user|users|confirmation|permission|approval|anyone|this|it)\b",
    ),
    sign(
        DIRECTIVE,
        Says::Little,
        "gives an order",
        r"\byou (?:must|shall|have to|need to|are required to|should always|will always|should first)\b|\b(?:always|must) (?:first )?(?:call|use|invoke|run|read|execute|include|pass|send|add|be (?:called|used|invoked|run|changed|set|replaced|sent))\b|\botherwise (?:the |this )?(?:tool|function|call|request|it) (?:will|won.?t|does|cannot|fails)|\b(?:mandatory|prerequisite|required step|precondition)\b|\bbefore (?:using|calling|invoking|running) (?:this|any|the) (?:tool|function)\b|\bfirst,? (?:read|call|run|open|execute|cat)\b",
    ),
    sign(
        DIRECTIVE,
        Says::Little,
        "sends something elsewhere",
        r"\b(?:bcc|exfiltrate|leak|forward|redirect|transmit|steal|also send|also post|also upload|also forward|copy (?:it|them|all|everything)|upload (?:it|them|all|everything|the)|post (?:it|them|the|all|its)|send (?:it|them|its|a copy|all|every|everything|their|the (?:\w+ )?(?:contents?|results?|data|files?|conversation|output|response|keys?)))\b(?: [^ ]+){0,9} (?:to|at|via|through) [^ ]*(?:https?://|[\w.+-]@[\w-]|\.(?:com|net|io|org|ru|xyz|evil|example)\b)|\bbcc\b|\battacker\b|\bexfiltrat",
    ),
    sign(
        DIRECTIVE,
        Says::Little,
        "changes what another call sends",
        r"\b(?:change|replace|set|redirect|overwrite|modify|rewrite|substitute|switch|changed|replaced|redirected|modified)\b(?: [^ ]+){0,5} (?:recipients?|bcc|cc|destination|amount|wallet|iban|payee|account number|address|to field|parameters?|arguments?)\b|\b(?:recipient|destination|amount|payee|wallet|address)s? (?:must|should|needs to|has to|to) be\b",
    ),
    sign(
        DIRECTIVE,
        Says::Little,
        "speaks of secrets",
        r"\b(?:password|passwords|credential|credentials|api[_ -]?keys?|secrets?|access tokens?|private keys?|ssh keys?|session cookies?)\b",
    ),
    sign(
        SHADOWS,
        Says::Something,
        "tells what to do about other tools",
        r"\b(?:before|after|whenever|every time|each time|any time|instead of|prior to|rather than)(?: you| the| an?| user| users| agent| is| are){0,3} (?:using|calling|invoking|running|executing|use|call|invoke|run|uses|calls) (?:the |any |other |another |all |of |tool |function )*[`'\x22]?[a-z][a-z0-9]*[_-][a-z0-9_-]*[a-z0-9]\b|\bwhen(?: you| the| an?| user| users| agent){0,3} (?:calling|invoking|call|invoke|calls) (?:the |any |other |another |all |of |tool |function )*[`'\x22]?[a-z][a-z0-9]*[_-][a-z0-9_-]*[a-z0-9]\b|\b(?:before|after|whenever|when|instead of|prior to) (?:the )?[`'\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9][`'\x22]?(?: tool| function)?,? (?:always|is (?:called|used|invoked|run|available)|you|must|call|use|first)\b|\b(?:do not|don.?t|never|stop) (?:use|using|call|calling|invoke|trust) (?:any |the |all )?(?:other|another|different|built-?in|existing|official) (?:\w+ )?(?:tools?|functions?|servers?|version)\b|\b(?:do not|don.?t|never|stop) (?:use|using|call|calling|invoke) (?:the )?[`'\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9]\b|\b(?:the |tool )?[`\x27\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9][`\x27\x22]? (?:tool|function) (?:is|was|has been|will be) (?:broken|deprecated|insecure|unsafe|compromised|unavailable|disabled|replaced|malicious)|\b(?:use|prefer|choose|call) this (?:tool |function |one )?(?:over|instead of|rather than|in place of)\b|\bthe only (?:\w+ ){0,2}(?:tool|function) (?:you|that you|to)\b|\b(?:another|other|different) tools? (?:named|called|with)\b|\b(?:any|every|each|all) (?:subsequent|later|further|following|future) (?:calls? (?:to|of) )?[`\x27\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9]\b|\b(?:sent|made|executed) (?:by|with|via|through) (?:the )?[`\x27\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9]\b|\b(?:this tool|this function) (?:replaces|supersedes|overrides|takes precedence over|must be (?:called|used|run|invoked) (?:before|instead of|first))\b|\b(?:any|all|every|other) tools? (?:from|of|on) (?:another|other|any other|different) servers?\b|\ball tools must\b|\b[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9] (?:tool |function )?has an? (?:vulnerability|backdoor|bug)\b|\b(?:all|any|every|each) other (?:mcp )?(?:tools?|servers?)\b|\b(?:the|all|any|of) other tools?\b|\binstead of (?:the |any )?(?:other|built-?in|existing|official|default|native) (?:\w+ )?tools?\b|\bwhen(?:ever)? (?:the )?(?:tool |function )?[`'\x22]?[a-z][a-z0-9]*_[a-z0-9_]*[a-z0-9][`'\x22]?(?: tool| function)? is (?:called|used|invoked|present|available|run)\b",
    ),
    sign(
        PAYLOAD,
        Says::Enough,
        "has a command that fetches and runs something",
        r"\b(?:curl|wget|fetch|iwr|invoke-webrequest)\b[^|\n;]{0,300}\| ?(?:sudo )?(?:/bin/|/usr/bin/)?(?:env )?(?:ba|z|da|k)?sh\b|\b(?:curl|wget)\b[^|\n;]{0,300}\| ?(?:sudo )?(?:python3?|perl|ruby|node|php)\b|\b(?:ba|z|da)?sh -c [\x22'`]?\$\((?:curl|wget)|\b(?:ba)?sh <\((?:curl|wget)|\bpowershell(?:\.exe)? [^\n]{0,80}-e(?:nc|ncodedcommand)?\b|\biex ?\(|\|\s?iex\b|/dev/tcp/|\bnc(?:at)? [^\n]{0,40}-e ?/bin/|base64 (?:-d|-D|--decode)[^|\n]{0,80}\| ?(?:ba|z)?sh\b|\bchmod (?:\+x|755|777) [^ ]+ ?(?:&&|;)|\bpython3? -c [^ ]?import\b|\bos\.system\(|\bsubprocess\.(?:run|call|popen)\(|\beval\(atob\(|\bexec\(base64|__import__\(['\x22](?:os|subprocess)['\x22]\)",
    ),
    sign(
        PAYLOAD,
        Says::Something,
        "has a command that destroys",
        r"\brm -[rf]{2} (?:/|~|\$home|\*)|\bmkfs\.\w+ /dev/|\bdd if=/dev/(?:zero|random) of=/dev/|:\(\) ?\{ ?:\|:& ?\};:|\bchmod (?:-r )?777 /",
    ),
];

/// The same in languages that need more letters than ASCII has.
pub(super) const OTHER_ALPHABETS: &[Sign] = &[sign(
    DIRECTIVE,
    Says::Enough,
    "orders the reader to ignore what it was told, in another language",
    r"\bignorier[^ ]* (?:[^ ]+ ){0,3}(?:vorherigen?|bisherigen?|obigen?|früheren?|vorangegangenen?) (?:[^ ]+ )?(?:anweisung|instruktion|befehl)|\bignor(?:a|e|ar|ez|er|i|are)\b (?:[^ ]+ ){0,3}(?:instrucciones|instructions|instruções|istruzioni) (?:anteriores|previas|précédentes|ci-dessus|precedenti)|\boublie[zr]? (?:[^ ]+ ){0,2}instructions|忽略(?:之前|以上|先前|前面|上述|所有)[^。]{0,8}(?:指令|指示|说明|提示)|(?:以前|これまで|上記|前)の(?:すべての)?指示を(?:無視|忘れ)|игнорируй(?:те)? (?:[^ ]+ ){0,2}(?:предыдущие|прежние|все)|이전(?:의)? (?:모든 )?(?:지시|명령)[^ ]{0,3} (?:모두 )?무시",
)];

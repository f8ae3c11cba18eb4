"""The grammar of the synthetic reviews: what customers of some thirty trades write, and how.

Notation as in `_grammar_queries.py`, and two things more. Words after " ~" are tastes: who likes to use that
alternative (F, M; young, middle, old; uk, us, de, dk, fr). Tastes make an alternative likelier for such an author and
less likely for others, never certain. `{an item}`, `{it}`, `{them}`, `{was}`, `{is}`, `{has}`, `{s}`, `{es}` agree in
number with the thing bought. `{person}`, `{staffer}`, `{signature}`, `{email}`, `{phone}` and `{order}` are planted
identifiers.

A trade has `good`, `bad` and `niggle` (complete clauses about its core business) and `staff` (a singular noun); shops
have `items` besides, services a `context`. Clauses on speed (`swift`, `late`), people (`kind`, `rude`) and money
(`fair`, `dear`) are shared, so that a text can praise one side and blame another without contradicting itself.
"""

from __future__ import annotations

COMMON = {
    # A rule for each rating.
    "5": """
        {background}{.} {good} and {brisk}{.} {recommend}{.}
        {context}{.} {good}{.} {recommend}{.}
        {context}{.} {good} and {praise}{.}
        {context}{.} {good}{.} {praise}{.}
        {context}{.} {praise}, {praise}{.} {verdict}{.}
        {verdict}{.} {context}, and {praise}{.}
        {verdict}{.} {good}{.} {recommend}{.}
        {good}, {kind} and {fair}{.}
        {good} and {brisk}{.} {aside}{.}
        {good} and {brisk}{.} {recommend}{.}
        {background} and {kind}{.} {good}{.}
        {good}, and on top of that {praise}{.}
        {fragment}, {fragment} and {fragment}{.} {good}{.} {recommend}{.}
        {fragment}, {fragment}{.} {context}, and {good}{.}
        {fragment}, and {good}{.} {recommend}{.}
        {context}{.} {good}{.} {aside}{.}
        {people}{.} {kind} and {good}{.} {recommend}{.}
        {good}{.} {verdict}{.} {aside}{.}
        {praise}{.} {verdict}{.} {recommend}{.}
        {good}{.} {recommend}{.}
        {good}{.} {verdict}{.}
        {good} and {brisk}{.}
        {context}{.} {good}{.}
        {verdict}{.} {praise}{.}
    """,
    "4": """
        {good}, [but|although|though|only] {niggle}.
        {praise}, [but|although|though|only] {niggle}.
        {good} and {praise}{.} {almost}{.}
        {good}{.} {almost}{.}
        {context}{.} {good}{.} {content}{.}
        {context}{.} {good}, [but|although|though|only] {niggle}.
        {good} and {brisk}{.} [one small thing:|my only gripe:|just a pity that|the one snag is that] {niggle}.
        {kind} and {good}{.} [minus one star because|lost a star because|not quite five stars as] {niggle}.
        {good}{.} {niggle}, but [overall|all in all|on the whole|still] {content}{.}
        {praise}, [but|although|even if] {niggle}{.} {content}{.}
        {background}{.} {praise}, [but|although|even if] {niggle}{.}
        {content}{.} {good}, [although|even though|but] {niggle}.
        {context}{.} {praise}{.} {almost}{.}
        {praise} and {praise}{.} {almost}{.}
        {mixed}{.} [still,|all the same,|nevertheless] {content}{.}
        {content}, even if {bad}{.} {praise}{.}
        {context}{.} {mixed}{.} {content}{.}
        {fragment} and {fragment}{.} {good}, [but|only] {niggle}.
        {good}{.} [it is true that|admittedly|granted,] {niggle}, [but|yet] {brisk}{.}
    """,
    "3": """
        {mixed}{.}
        {mixed}{.} {soso}{.}
        {soso}{.} {context}, but {bad}{.}
        {context}{.} {mixed}{.}
        {context}{.} {mixed}{.} {soso}{.}
        {soso}{.} {mixed}{.}
        {mixed}, and {niggle}{.}
        {background}{.} {mixed}{.}
        {mixed}, so {undecided}{.}
        {mixed}{.} {undecided}{.}
        {fragment}, [but|and yet|still,] {bad}{.} {soso}{.}
    """,
    "2": """
        {bad} and {niggle}{.} {letdown}{.}
        {bad}{.} {gripe}{.} {letdown}{.}
        {context}{.} {bad}{.} {letdown}{.}
        {background}, but {bad}{.}
        {context}{.} {bad} and {niggle}{.} {letdown}{.}
        {context}, but {bad}{.} {letdown}{.}
        {bad} and {gripe}{.} {consolation}{.}
        {letdown}{.} {bad}, and {gripe}{.}
        {background}, but {gripe} and {bad}{.} {letdown}{.}
        {background}, but {bad}{.} {letdown}{.}
        {consolation}, but {bad} and {gripe}{.}
        {mixed}{.} {letdown}{.}
        {good}, but {bad} and {gripe}{.}
        {context}{.} {mixed}{.} {letdown}{.}
        {context}{.} {bad}{.} {gripe}{.}
    """,
    "1": """
        {bad}{.} {gripe}{.} {never}{.}
        {fiasco}{.} {never}{.}
        {never}{.} {bad} and {gripe}{.}
        {bad} and {gripe}{.} {demand}{.}
        {context}{.} {bad} and {gripe}{.} {never}{.}
        {context}{.} {bad}{.} {never}{.}
        {never}{.} {bad}, {gripe}, and {gripe}{.}
        {bad} and {gripe}{.} {demand}{.} {never}{.}
        {context}{.} {bad}{.} {demand}{.}
        {background}, but {bad} and {gripe}{.} {never}{.}
        {never}{.} {fiasco}{.} {demand}{.}
        {context}{.} {fiasco}{.} {never}{.}
        {fiasco}{.} {rude}{.} {never}{.}
    """,
    # The same for the texts that hold identifiers.
    "5 named": """
        {good} and {brisk}{.} {credit}.
        {context}{.} {credit}{.} {recommend}{.}
        {context}{.} {good}{.} {credit}.
        {credit}, {good} and {fair}{.}
        {verdict}{.} {good}{.} {greeting}.
    """,
    "4 named": """
        {good}, [but|although] {niggle}. {credit}.
        {context}{.} {credit}, [but|although] {niggle}.
        {praise}{.} {niggle}, but {content}. {greeting}.
    """,
    "3 named": """
        {mixed}. {trace}.
        {soso}. {trace}, but {praise}.
        {mixed}. {greeting}.
    """,
    "2 named": """
        {bad} and {gripe}. {trace}.
        {context}, but {bad}. {trace}.
        {letdown}. {bad}. {greeting}.
    """,
    "1 named": """
        {bad}. {trace}. {rude}.
        {fiasco}. {trace}. {never}.
        {never}. {bad} and {gripe}. {greeting}.
        {context}. {trace}, {gripe}. {demand}.
    """,
    # Clauses about who is meant, which number and how to answer: no trade needs its own.
    "credit": """
        [special|many|big] thanks to {staffer} ~F uk
        {staffer} [explained everything|took care of it all|answered every question]
        {staffer} [deserves a raise|is a keeper] ~us
        ask for {staffer}, [a true professional|who really knows the business] ~M us
        {staffer} in {town} was [wonderful|so patient|an angel] ~F
        {staffer} [dealt with|handled] {a number} [without fuss|in minutes|perfectly] ~M
        {staffer} rang me on {phone} [to check all was well|the very same day] ~uk old
        {staffer} wrote to me at {email} [within the hour|straight away] ~de dk
        thank you {staffer} and the whole [team|crew]
        shout out to {staffer} ~young us
    """,
    "trace": """
        {a number} is still [unresolved|open|in limbo]
        nobody can [find|trace|explain] {a number}
        please [check|look into] {a number}
        {staffer} promised to phone {phone} and never did
        I was told to write to {email} and heard nothing
        my messages about {a number} go unanswered
        {staffer} said it was not their [problem|department]
        reply to {email} or call {phone}
        my number is {phone}, [ring me|do call] ~uk
        call me at {phone} ~us
        I have written to {email} [twice|three times|again and again]
        {staffer} in {town} [hung up on me|shrugged it off|could not help]
    """,
    "greeting": """
        [regards|yours|all the best], {signature} ~uk old
        {signature}, {town}
        [best|thanks], {signature} ~us
        [greetings|kind regards] from {town}, {signature} ~de dk
        contact me at {email}
        my reference is {order}
    """,
    "a number": "[order|order number|my order] {order} / [reference|invoice|file|case] {order}",
    # Punctuation.
    ".": """
        .
        .
        .
        .
        .
        . ~old de dk
        ! ~F young us
        ! ~F young fr
        !! ~F young
    """,
    # Closings.
    "recommend": """
        would [happily|certainly|definitely] recommend
        highly [recommend|recommended] ~us
        [cannot|can't] recommend them enough ~F
        will [definitely|certainly] {again}
        I shall certainly {again} ~old uk
        gonna {again} for sure ~young
        already planning to {again}
        my husband [is a convert too|is impressed as well|agrees] ~F
        my wife [is impressed too|wants us to {again}|agrees] ~M
        thank you so much ~F young
        many thanks to all [concerned|involved] ~uk old
        cheers, [guys|lads|all] ~uk M
        thanks a [bunch|million] ~us
        keep up the good work ~M
        two thumbs up ~us M
        ten out of ten ~uk middle
        10/10 ~young
        could not be happier ~F
        you can't go wrong here ~us M
        I can only recommend [them|this company] ~de
        gladly again ~de
        perfect, thank you ~de fr
        I recommend without hesitation ~fr
        I recommend [them|it] to everyone ~fr
        warmly recommended ~dk
        many greetings from {town} ~de dk
        thank you and see you soon ~fr
        a pleasure to deal with ~old uk
        what more [could|can] you [want|ask for] ~uk
        my new go-to ~young us
        totally obsessed ~F young
        nice and easy ~dk
        no complaints whatsoever ~M
        credit where credit is due ~M uk
        keep it up, folks ~us
        a big hug to the team ~F fr
        job done ~M uk
        here's to the next time ~middle
        well worth [it|the money]
        would recommend to anyone in {town}
        greetings from {town}
        a very big thank you from {town} ~fr de
        on recommande ~fr
        excellent relation between price and quality ~fr
        thanks from a happy Dane ~dk
        I am glad for it ~dk
        all super ~de
        you get what you pay for here ~us
        y'all rock ~us
        tip top ~dk de
        told all my [friends|girlfriends|colleagues] ~F
        told everyone at [work|the office] ~middle
        told everyone at the [club|allotment|bowls club] ~old uk
    """,
    "verdict": """
        absolutely {lovely} ~F
        {lovely} from start to finish
        {lovely} [service|experience|company]
        [what a|such a] {lovely} [surprise|company|find] ~F
        truly {lovely} ~old
        super [happy|pleased|chuffed] ~young
        so happy [with this|right now] ~F young
        very [satisfied|content] ~de dk fr
        most satisfactory ~old uk
        first class ~old uk M
        top marks ~uk
        top service ~de
        nothing to [fault|complain about] ~M
        nothing negative to say ~fr
        love, love, love ~F
        hands down the best ~M us
        honestly the best ~young
        can't fault them ~uk
        exactly what I [needed|wanted|was after]
        this is how business should be done ~M old
        solid [work|company|service] ~M
        a lifesaver for busy parents ~middle
        really good, as always ~dk
        what a treat ~F uk
        finally someone competent ~M de
        the best in {town}
        best [service|company] in the whole of {town}
        everything was in order ~de dk
        very serious and rapid ~fr
        all was perfect ~fr
        a big plus ~de dk
        super nice ~dk young
        five stars all day long ~us
        jolly good ~uk old
        can't say fairer than that ~uk M
    """,
    "content": """
        [quite|pretty|fairly] {pleased}
        I am {pleased}
        I would [still |]{again}
        I am rather {pleased} ~uk old
        a good [company|choice] all the same
        nobody does it better in {town}
        I am content with the whole ~de dk
        globally it was positive ~fr
        not too shabby ~us
        not half bad ~uk
        nothing that would stop me ~M
        my husband and I are {pleased} ~F
        the wife is {pleased} ~M
        I love it anyway ~F young
        I can't complain at this price ~M
        everything [went|goes] well in general ~fr dk
        it is worth it ~us
        it is very okay ~dk de
    """,
    "almost": """
        nearly perfect / four stars because nobody is perfect / just short of perfect ~M / almost there ~us
        room for a little improvement ~old / a solid four ~M young / not far from five stars ~fr / could be a bit faster
        so close to five stars ~F / very good, not outstanding ~de dk / a tiny bit pricey, otherwise great ~middle
    """,
    "pleased": """
        happy ~F
        pleased ~uk old
        satisfied ~de dk fr M
        content ~dk
        chuffed ~uk young
        delighted ~F old uk
        impressed ~M
        thrilled ~F us
    """,
    "soso": """
        [it was |]okay, [nothing special|nothing more] ~dk de
        average [at best|really] ~M
        a bit [meh|underwhelming] ~young
        middling, I would say ~old uk
        so-so ~us
        neither good nor bad ~de fr
        so lala ~de
        it is only okay ~dk
        passable ~fr
        [fair|alright] to middling ~uk
        just okay, folks ~us
        could be better ~dk
        not bad, not great
        fine for the [price|money] ~M
        I wanted to love it ~F
        I had hoped for a little more ~F old
        mixed feelings [here|about this one] ~F us
        it does the job ~M
        correct, without more ~fr
        three stars is fair ~M
        decidedly average ~uk M
        hit and miss ~uk
        kinda disappointed ~us young
        bit of a mixed bag ~uk
        good ideas, [poor|sloppy] execution ~M
    """,
    "undecided": """
        I may give them another [chance|try] ~F
        I am in two minds ~uk
        I am on the fence ~us
        I will [shop around|compare prices] next time ~M
        my husband would not go back ~F
        my wife was less forgiving ~M
        I can neither recommend nor advise against it ~de
        I shall think twice ~old uk
        maybe I was just unlucky
        perhaps it was an off day
        we will see ~dk fr
        not sure I would {again}
        idk if I would {again} ~young
        with three kids I expected less fuss ~middle
    """,
    "letdown": """
        [really |very |quite |]disappointed
        [such|what] a [shame|pity] ~F uk
        gutted ~uk young
        bummer ~us young
        a pity ~de fr
        expected [better|more] [from them|at this price|]
        not [impressed|good enough|acceptable] ~M
        poor show ~uk old M
        not what I paid for ~M us
        deeply unsatisfactory ~old
        I felt so let down ~F
        my daughter was in tears ~F
        my wife was not amused ~M
        really not okay ~dk
        I am not satisfied ~de dk
        it is a real disappointment ~fr
        kind of a ripoff, honestly ~us young
        below par ~M uk
        we deserve better after [ten|fifteen|twenty] years ~old
        not what a busy family needs ~middle
        it made me [sad|cross] ~F uk
        two stars and that is generous ~M
        tbh I expected more ~young
        nobody in {town} deserves this
        it is a bit embarrassing ~dk
        unfortunately not recommendable ~de
        quality leaves to be desired ~fr
        I am very deceived ~fr
        pretty lame ~us
        a poor do ~uk
        that is not how we do it in {town}
    """,
    "never": """
        [avoid|avoid like the plague|steer clear] ~uk
        stay away ~us
        never again
        complete waste of [time and money|money] ~M
        utter rubbish ~uk M
        total garbage ~us M
        a [total |]scam ~young us M
        an absolute joke ~uk young M
        [heartbroken|so upset|close to tears] ~F
        disgraceful ~old uk
        an absolute shambles ~uk old
        hands off ~de
        I am shocked ~dk F
        shameful ~fr
        to be avoided ~fr
        worst [company|experience] ever ~us young
        the worst customer service I have [ever |]had
        take your [business|money] elsewhere ~M us
        catastrophic ~de fr
        wish I could give zero stars ~F us
        appalling ~uk old
        I do not understand how they survive ~dk
        literally the worst ~young F
        what a nightmare ~F
        [crooks|cowboys|clowns], the lot of them ~M uk
        I advise against it ~fr de
        do not order if you live in {town}
        one minus star from {town} ~dk de
        a big no from me ~dk
        it is a catastrophe ~fr
        never more ~fr dk
        total chaos ~de
        [daylight robbery|bunch of cowboys] ~uk
        buyer beware, folks ~us
        lost a customer for life ~old
        no parent has time for this ~middle
    """,
    "demand": """
        I want my money back
        my {lawyer} will be in touch ~M
        reported to [trading standards|the ombudsman] ~uk
        reported to the better business bureau ~us
        the consumer agency knows now ~dk de
        my bank has [reversed|disputed] the payment ~M
        I demand an apology ~old
        [my husband|my sister] had to step in and sort it ~F
        I cried with frustration ~F
        my wife is furious ~M
        I have already cancelled ~uk
        I have already canceled ~us
        a registered letter is on its way ~fr de
        going straight to [tiktok|twitter] with this ~young
        after [twenty|thirty] years of loyalty we are leaving ~old
        I took time off work for nothing ~middle
        I still hope for a refund
    """,
    "lawyer": "lawyer ~us de / solicitor ~uk / attorney ~us / advocate ~fr dk / son, who is a lawyer, ~old",
    "consolation": """
        {kind}, at least
        to be fair, {fair}
        at least {kind}
        {fair}
        the only plus is that {kind}
        in their defence, {kind} ~uk
    """,
    "brisk": """
        {swift}
        {swift}
        {kind}
        {fair}
    """,
    "praise": """
        {good}
        {good}
        {swift}
        {kind}
        {fair}
    """,
    "gripe": """
        {late}
        {rude}
        {dear}
        {sorry}
    """,
    "mixed": """
        {swift}, [but|however|yet] {bad}
        {kind}, but {bad}
        {fair}, [but|however|yet] {bad}
        {good}, but {late}
        {good}, [but|although] {dear}
        {bad}, although {kind}
        {bad}, but at least {fair}
        while {good}, {late}
    """,
    "fragment": """
        great [service|price|value] ~us
        {lovely} [service|staff|quality] ~F
        good value ~uk middle
        fair [price|prices] ~de M
        reasonable price ~M
        friendly [staff|people|service]
        no [hassle|nonsense|stress] ~M
        no stress ~dk young
        punctual delivery ~de
        rapid answer ~fr
        correct prices ~fr de
        fine prices ~dk
        good service ~dk
        spot on service ~uk
        awesome prices ~us
        easy [website|app|process]
        simple app ~young
        prompt service ~old
        courteous staff ~old
        clear communication ~M
        sweet staff ~F
        [fast|quick] [response|replies]
        honest advice ~M old
        quick and painless ~M us
        nice people ~dk
        good contact ~de
        serious company ~fr de
        quality at the rendezvous ~fr
        polite and punctual ~de old
        family friendly ~middle
    """,
    "aside": """
        my husband was [impressed|pleased|over the moon] too ~F
        my wife was [impressed|pleased|delighted] too ~M
        my boyfriend is [jealous|sold] ~F young
        my girlfriend is [jealous|sold] ~M young
        even my teenagers [approve|were impressed] ~middle
        my grandson [approves|showed me how to book online] ~old
        my daughter found them for me ~old
        it made my [day|week] ~F
        that is what I call [value|service] ~M
        saves me so much time between work and the kids ~middle
        I did the maths and saved {money} ~M uk
        I did the math and saved {money} ~M us
        mum would be proud ~uk young
        mom loved it too ~us F
        so grateful ~F
        chapeau ~fr
        it felt very cosy and personal ~dk F
        everything as agreed ~de M
        just like in the old days ~old
        my mates are all [switching|using them] now ~young uk M
        my colleagues have switched as well ~middle
        at seventy I value a [human voice|bit of patience] ~old
        told my book club about it ~F old
        my flatmate wants one too ~young uk
        my roommate uses them as well ~young us
        bravo to the whole team ~fr
    """,
    "background": """
        {relative} [recommended|suggested|swears by] {company}
        found {company} on [tiktok|instagram|youtube] ~young
        found {company} through a thread on reddit ~young M
        a friend from yoga told me about {company} ~F
        a mate at [work|football|the gym] told me about {company} ~M uk
        a buddy told me about {company} ~M us
        the other mums at school rave about {company} ~F middle uk
        the other moms at school rave about {company} ~F middle us
        read about {company} in the [paper|Sunday supplement] ~old
        I have been a customer of {company} for [twenty|thirty|many] years ~old
        this was my [second|third|first] time with {company}
        we switched to {company} [when the baby came|when we moved to {town}] ~middle
        I compared six offers before choosing {company} ~M
        colleagues at the office use {company} ~middle
        my neighbour uses {company} ~uk old
        my neighbor uses {company} ~us old
        living abroad, I chose {company} for its English website ~de dk fr
        here in {town} [everyone knows|many people use] {company}
        as a student I [picked|need] {company} for the discount ~young
        since my retirement I rely on {company} ~old
        being a pensioner, I was wary of {company} ~old uk
        with two small children I needed {company} ~middle
        google sent me to {company}
        just moved to {town} and tried {company}
        everybody in {town} talks about {company}
        {company} has a good name here in {town}
        we are from {town} and chose {company}
        as a single mum I was nervous about {company} ~F middle uk
        as an engineer I looked closely at {company} ~M
    """,
    "relative": """
        my husband ~F / my husband ~F / my wife ~M / my wife ~M / my boyfriend ~F young / my girlfriend ~M young
        my daughter ~F middle / my son ~M middle / my grandson ~old / my granddaughter ~old F / my mum ~uk young
        my mom ~us young / my dad ~young M / my sister ~F / my brother ~M / my flatmate ~uk young
        my roommate ~us young
        a friend / my neighbour ~uk old / my neighbor ~us old / my niece ~F old / my nephew ~M old / a colleague ~middle
        my best friend ~F young / my cousin ~young / my father in law ~middle M / my mother in law ~middle F
        my partner / my girlfriends ~F / my buddies ~M us / my late husband ~F old
    """,
    "who": """
        myself / my husband ~F / my wife ~M / my boyfriend ~F young / my girlfriend ~M young / my daughter ~F middle
        my son ~M middle / my grandson ~old / my granddaughter ~old F / my mum ~uk / my mom ~us / my dad ~M
        my sister ~F
        my brother ~M / a friend / my niece ~F old / my nephew ~M / a colleague ~middle / my flatmate ~uk young
        my roommate ~us young / our neighbours ~uk / our neighbors ~us / the kids ~middle / my godson ~old
        my mother ~old / my father ~old / my best mate ~uk M / my bridesmaid ~F / my fiancée ~M young
        my fiancé ~F young
    """,
    "lovely": """
        lovely ~F uk
        lovely ~F
        gorgeous ~F young
        beautiful ~F
        great ~us
        awesome ~young us
        excellent ~M old
        superb ~uk M
        brilliant ~uk
        fantastic ~F middle
        solid ~M
        top notch ~M us
        perfect
        spot on ~uk M
        amazing ~F young
        wonderful ~F old us
        impeccable ~fr
        magnificent ~fr old
        super ~de young
        faultless ~old M
        really nice ~dk
        fine ~dk old
        splendid ~uk old
        outstanding ~M us middle
        terrific ~us old
        decent ~M uk
        flawless ~M young
        adorable ~F
    """,
    "very": "very / really ~young / so ~F young / extremely ~M middle / super ~young us / most ~old uk / incredibly ~F",
    "helpful": """
        helpful / friendly / patient / kind ~F / sweet ~F / courteous ~old / knowledgeable ~M / professional ~M
        efficient ~M / polite ~uk old / welcoming ~fr F / competent ~de M / correct ~de fr / understanding ~F
        obliging ~uk old / cool ~young M / chilled ~young uk / attentive ~fr / caring ~F / considerate ~old / warm ~dk F
        straightforward ~M / organised ~uk middle / organized ~us middle / agreeable ~fr / amiable ~old fr
    """,
    # What any trade's people do.
    "kind": """
        {staff} was {very} {helpful}
        {staff} was {very} {helpful} and {helpful}
        {staff} could not have been more {helpful}
        {staff} went [out of their way|above and beyond] to help
        {staff} [listened|took the time] and [explained|explained everything] [clearly|without jargon] ~M
        {staff} made me feel so [welcome|looked after|at ease] ~F
        {staff} knew [their stuff|exactly what they were doing] ~M
        {staff} was a total [star|legend] ~young uk
        {staff} was a real sweetheart ~F us
        {staff} treated us with [respect|courtesy] ~old
        {staff} was great with the [kids|little ones] ~middle F
        {staff} spoke perfect English ~de dk fr
        {staff} always had a smile ~F fr
        {staff} kept me [informed|updated] throughout ~middle
    """,
    "people": """
        what [lovely|sweet|kind] people ~F / good people ~M us / nice folks ~us old / great bunch ~uk M
        very nice team ~fr
    """,
    "rude": """
        {staff} was {rude_word}
        {staff} was {rude_word} and {rude_word}
        {staff} [refused to help|could not care less|shrugged]
        {staff} talked [down to me|to me like a child] ~F
        {staff} had no clue about [the basics|their own terms] ~M
        {staff} [hung up|put the phone down] on me
        {staff} would only speak to my husband ~F
        {staff} tried to fob me off ~uk M
        {staff} gave me attitude ~us young
        {staff} ghosted me ~young
        {staff} has no manners ~old
        {staff} had no time for [older people|pensioners] ~old
        {staff} snapped at my children ~middle
        {staff} laughed when I asked for a [supervisor|manager] ~us
        {staff} was not at all friendly ~de dk fr
    """,
    "rude_word": """
        rude / unhelpful / dismissive ~F / arrogant ~M fr / clueless ~M / condescending ~F / sarcastic / abrupt ~uk old
        incompetent ~M de / unpleasant ~fr / sloppy ~M / unfriendly ~de dk / snotty ~young us / patronising ~F uk
        patronizing ~F us / impolite ~fr old / useless ~uk M / nasty ~F / indifferent / discourteous ~old / cold ~F dk
    """,
    "sorry": """
        nobody [apologised|has apologised] ~uk
        nobody [apologized|has apologized] ~us
        my {mail} went unanswered
        I only got [copy and paste|automated|canned] replies
        the chatbot goes round in circles ~young
        the [hotline|help line] is always engaged ~uk de
        nobody picks up the phone ~old
        I was passed from one [department|person] to the next
        they blamed me [for it|instead]
        the answer was a standard letter ~old de
        they deny everything ~fr M
        nobody takes responsibility
        I am still waiting for a manager to call
        I had to explain it all five times
        their promises mean nothing ~old
        the complaint form leads nowhere
        they left me on read ~young
        the refund never came
        they ask for the same information again and again ~M
        they hide behind their [terms|small print] ~uk
        they hide behind the fine print ~us
    """,
    "mail": "email / emails / letter ~old / letters ~old / messages ~young / dms ~young / complaint / mails ~de dk",
    "money": """
        £{amount} ~uk
        £{amount} ~uk
        ${amount} ~us
        ${amount} ~us
        {amount} [quid|pounds] ~uk
        {amount} bucks ~us
        {amount} euros ~de fr
        €{amount} ~de fr
        {amount}0 kroner ~dk
        {amount}0 crowns ~dk
    """,
    "amount": "15 / 18 / 20 / 24 / 25 / 29 / 30 / 35 / 40 / 45 / 50 / 60 / 65 / 70 / 75 / 80 / 85 / 90 / 95",
    "month": "January / February / March / April / May / June / July / August / September / October / November",
    "when": """
        in {month}
        in {month}
        before Christmas
        earlier this year
        in the autumn ~uk
        in the fall ~us
        over Thanksgiving ~us
        over the bank holiday ~uk
        after the summer holidays ~uk dk
        around Labor Day ~us
        over Easter ~uk fr
        during Advent ~de
        just before term started ~young
        at half term ~uk middle
        in spring
        last winter
    """,
    "ages": """
        {weeks} weeks
        {weeks} long weeks
        nearly a month
        over a month
        forever ~young us
        ages ~uk
        a fortnight ~uk old
        {weeks} weeks instead of {weeks} days
        an eternity ~fr F
    """,
    "weeks": "two / three / four / five / six",
    "short": """
        ten minutes / fifteen minutes / half an hour / an hour / a day / 24 hours / one afternoon / a couple of hours
        one working day ~de / twenty minutes
    """,
    "town": """
        Leeds ~uk / Bristol ~uk / Glasgow ~uk / Norwich ~uk / Cardiff ~uk / Brighton ~uk / Sheffield ~uk / Exeter ~uk
        York ~uk / Belfast ~uk / Dallas ~us / Denver ~us / Boise ~us / Tucson ~us / Tampa ~us / Portland ~us / Omaha ~us
        Columbus ~us / Raleigh ~us / Albany ~us / Hamburg ~de / Cologne ~de / Leipzig ~de / Munich ~de / Bremen ~de
        Stuttgart ~de / Aarhus ~dk / Odense ~dk / Copenhagen ~dk / Aalborg ~dk / Esbjerg ~dk / Lyon ~fr / Nantes ~fr
        Lille ~fr / Toulouse ~fr / Bordeaux ~fr / Rennes ~fr
    """,
    "company": """
        Brightwell ~uk / Hartley's ~uk / Pebble and Pine ~uk / Copperfield's ~uk / Fernhill ~uk / Harbour and Co ~uk
        Dovetail ~uk / Oakmere ~uk / Larkspur ~us / Summit Direct ~us / Maplecroft ~us / Bluebarn ~us / Pinnacle ~us
        Trident ~us / Silverbrook ~us / Greenway ~us / Werkhaus ~de / Stadler ~de / Lindenhof ~de / Kaufgut ~de
        Falkenstein ~de / Rosewald ~de / Nordlane ~dk / Fjordly ~dk / Halden ~dk / Hyggebo ~dk / Strandby ~dk
        Lykke and Son ~dk / Montclair ~fr / Castelline ~fr / Belmonte ~fr / Ostara ~fr / Maison Verte ~fr / Lumiva ~fr
        Kestrel / Quickfold / Vantis / Zephyra / Atlas One / Juniper
    """,
    "colour": "colour ~uk de dk fr / color ~us",
    "colours": "colours ~uk de dk fr / colors ~us",
}

SHOP = {
    "when": """
        in {month}
        in {month}
        before Christmas
        in the January sale
        on Black Friday
        last Easter
        before the holidays ~us
        for Mother's Day ~F
        for Father's Day ~M
        in the summer sale
        just before term started ~young
        for our first winter here ~dk de
        for our anniversary ~old
    """,
    "context": """
        ordered {an item} {whence}
        ordered {an item} for {who} {when}
        ordered {an item} for {who} {whence}
        bought {an item} for {who}
        I bought {an item} for {who} {when}
        treated myself to {an item} {when} ~F
        picked up {an item} {whence} ~M us
        needed {an item} [in a hurry|at short notice|for the weekend]
        got {an item} as a [present|birthday present] for {who}
        got {an item} as a [gift|surprise] for {who} ~F
        purchased {an item} [online |]{when} ~old
        grabbed {an item} {whence} {when} ~young
        we ordered {an item} for our new [flat|place] in {town} ~uk
        we ordered {an item} for our new [apartment|place] in {town} ~us
        needed a replacement and ordered {an item} ~M
        spent {money} on {an item}
        I have ordered {an item} {whence} ~de dk fr
        ordered {an item} for delivery to {town}
        had {an item} sent to {town}
        we live near {town} and ordered {an item}
        my first order, {an item} for {who}
    """,
    "whence": """
        from {company} / at {company} / online / online {when} / from their {website} / in their sale ~F
        in the app ~young
    """,
    "website": """
        website / site / webshop ~de dk / online shop ~de uk / internet site ~fr old / catalogue ~old uk
        catalog ~old us
    """,
    "again": """
        order again / shop here again / buy from them again / be back for more / come back / return ~old
        recommend the shop ~de / buy here again / order more
    """,
    "staff": """
        customer service ~us
        customer care ~uk
        the [lady|girl] on the phone ~F
        the guy on the phone ~M
        the young man on the helpline ~old
        the {driver}
        the {driver}
        the [agent|person] in the chat ~young
        the support team
        the shop owner
        the customer service rep ~us
        the woman in the office
    """,
    "driver": "driver / delivery man / courier ~uk / mailman ~us / postman ~uk / delivery guy ~young us / postwoman ~F",
    "swift": """
        {it} arrived {soon}
        {delivery} was {fast}
        {it} {was} well packed and here {soon}
        the {parcel} [came|arrived|was here] {soon}
        {it} came {soon}
        {it} {was} on my doorstep {soon} ~F
        it shipped {soon} ~us
        it was dispatched {soon} ~uk
        I had {them} in my hands {soon}
    """,
    "late": """
        {it} took {ages} to arrive
        {delivery} took {ages}
        the {parcel} arrived {weeks} [days|weeks] late
        {delivery} was [painfully|terribly|very] slow
        I waited {ages} for the {parcel}
        I have waited since {weeks} weeks for an answer ~de dk
        the {parcel} was left [in the rain|by the bins|with a stranger]
        the tracking was [wrong|useless|a fantasy] ~M
        they sent the wrong {colour} first
        the {driver} never rang the bell
        {it} came in a crushed box
    """,
    "fair": """
        the price was [unbeatable|fair|right] ~M
        it cost {money} less than elsewhere
        {delivery} was free
        I saved {money}
        it was [great|good|excellent] value
        they price matched without [fuss|a murmur] ~M
        the discount code worked ~young
        the [student|voucher] discount is generous ~young
        it was a [bargain|steal] ~F
        the price performance ratio is right ~de M
        the quality is worth the price ~fr dk
        they threw in a [free gift|little extra] ~F
        returns are free
    """,
    "dear": """
        {money} for {delivery} is [steep|a joke|cheeky]
        the price [went up|doubled] overnight
        I paid {money} too much
        I had to pay {money} for the return
        I found it {money} cheaper [elsewhere|down the road] ~M
        it is overpriced ~M
        customs wanted another {money} ~de dk fr
        the discount [vanished|disappeared] at checkout ~young
        they charged my card twice
        it is a lot of money on a pension ~old
    """,
    "fiasco": """
        {it} never {turned_up} and {staff} blames the {driver}
        the {parcel} never {turned_up}, and {sorry}
        nothing arrived, and {sorry}
        they cancelled after {weeks} weeks and kept {money} ~uk
        they canceled after {weeks} weeks and kept {money} ~us
        I received an empty box and {sorry}
        {weeks} weeks later still no {parcel}, and {sorry}
        they took {money} and vanished
        they sent somebody else's order, and {sorry}
    """,
    "turned_up": "turned up ~uk / showed up ~us / came ~de dk fr / materialised ~uk old / arrived",
    "delivery": """
        delivery ~uk / delivery ~uk de / shipping ~us / shipping ~us / the delivery ~fr de / postage ~uk
        shipment ~dk de
    """,
    "parcel": """
        parcel ~uk / parcel ~uk de / package ~us / package ~us / packet ~dk / box / packet ~de / colis ~fr / order
    """,
    "fast": """
        fast / quick / prompt ~old / super fast ~young / speedy ~uk F / free / lightning fast ~young us
        punctual ~de old
        rapid ~fr / reliable ~de M / on time / hassle free ~M / very fast ~dk fr / swift ~old uk
    """,
    "soon": """
        the next day / within two days / a day early / in under 48 hours / on time / exactly when promised ~old
        sooner than I thought
        in no time ~young / super quick ~young / bang on time ~uk M / ahead of schedule ~M us / on the agreed day ~de
        in perfect time ~fr / already after two days ~de dk / just in time for the party ~F
        before the school run ~middle
        by return of post ~old uk / well packed and intact
    """,
    "niggle": """
        the {website} is a bit [clunky|slow|dated]
        {delivery} could be cheaper
        there was far too much [plastic|packaging|cardboard]
        the box was a little [battered|dented]
        the instructions could be clearer ~M
        I had hoped for gift wrapping ~F
        the invoice was missing ~de
        the {colour} is a shade darker than expected ~F
        I had to sign up for a newsletter
        the print on the label is [tiny|too small] ~old
        checkout kept crashing on my phone ~young
        there is no {website} in my language ~fr de dk
        the [foam bits|peanuts] in the box went everywhere ~us
    """,
}

SERVICE = {
    "again": """
        use them again / come back / stay with them / go back ~us / recommend them / return ~old / choose them again
    """,
    "swift": """
        it was all [sorted|done and dusted] within {short} ~uk
        everything was [done|settled|finished] within {short}
        I got a reply within {short}
        the whole thing took {short}
        there was no waiting [around|at all]
        they answered at once
        they called back within {short} ~us
        everything went fast and without problems ~de dk fr
        they were on time to the minute ~de M
        it was super quick ~young
    """,
    "late": """
        I was on hold for [forty minutes|an hour|two hours]
        it took {ages} to get an answer
        I waited {ages} for a reply
        nobody [called|phoned|rang] me back
        I have waited since {weeks} weeks ~de dk
        they kept me waiting for {ages}
        they were [an hour|two hours] late
        we stood in the queue for an hour ~uk
        we stood in line for an hour ~us
        every promise to call back was broken ~old
    """,
    "fair": """
        the price was [fair|reasonable|right] ~M
        it cost {money} less than [elsewhere|the others]
        there were no hidden [fees|costs|charges]
        I saved {money} ~M
        I saved {money} compared to last year
        it was [great|good|excellent] value
        the bill matched the quote ~M
        the quality is worth the price ~fr dk
        the price performance ratio is right ~de M
        they even knocked off {money} ~uk M
        the senior discount helped ~old us
        the student rate is a steal ~young
        the family rate is [very good|great] ~middle
    """,
    "dear": """
        they charged {money} extra
        the final bill was {money} higher
        I paid {money} too much
        {money} is [daylight robbery|a joke|far too much] ~uk
        the hidden fees added up to {money} ~us
        prices have doubled
        it is overpriced ~M
        they took {money} from my account twice
        it is a lot of money on a pension ~old
        for {money} I expected more
    """,
    "fiasco": """
        {bad}, {late} and {sorry}
        {bad} and still they want {money}
        {late}, {rude} and {dear}
        they took {money} and did nothing
        {bad}, and the manager did not even {look}
    """,
    "look": "look up ~uk / say sorry ~F / bother to answer / reply / listen / blink ~M",
}

TRADES = """
    audio ~M young
    screens ~M
    appliances ~F
    computers ~M
    clothing ~F
    shoes ~F young
    jewellery ~F
    beauty ~F young
    furniture ~middle
    beds and sofas ~old
    cookware ~F
    books ~old
    toys ~middle F
    dogs ~F middle
    cats ~F
    health ~old
    plants ~F old
    garden machines ~M old
    power tools ~M
    car parts ~M
    bikes ~M young dk
    flowers ~F
    glasses ~old
    wine ~M fr
    hotel
    airline
    bank ~M
    insurance ~M old
    restaurant
    phone contract ~young
    broadband ~M
    energy supplier ~middle
    car hire ~M
    courier
    garage ~M
    train ~de young
    gym ~young M
    hairdresser ~F
    dentist ~F old
    plumber ~middle
    removals ~middle
    cinema ~young
    nursery ~F middle
    cruise ~old
    estate agent ~middle
"""

SHOPS = {
    "audio": {
        "items": """
            a pair of headphones / a soundbar ~M / a radio ~old / a pair of speakers ~M / an amplifier ~M
            a set of earbuds ~young
            a record player ~M old / a bluetooth speaker ~young / a karaoke machine ~F / a digital piano
            a hi-fi ~uk old
        """,
        "good": """
            the sound is {lovely}
            setting {them} up took five minutes ~M
            {it} work{s} like a charm
            {it} feel{s} [sturdy|well made] ~M
            the bass is exactly as advertised ~M
            {it} look{s} so {lovely} in the living room ~F
            even I could work out the buttons ~F old
            my old records come alive ~old
            I dance around the kitchen every night ~F
            the treble is crisp without hiss ~M
        """,
        "bad": """
            one side went silent after [a week|two days]
            {it} would not switch on
            {it} turned out to be [refurbished|second hand] ~M
            the volume button fell off
            {it} crackle{s} and hum{s}
            the plug was for another country ~de dk fr
            the bluetooth drops constantly ~young
            voices sound like they are under water
        """,
    },
    "screens": {
        "items": """
            a television ~old / a tablet / a projector ~M / a monitor ~M / a smart watch ~young / an e-reader ~F
            a camera / a digital photo frame ~old F / a handheld console ~young M / a baby monitor ~middle F
        """,
        "good": """
            the picture is [crisp|sharp] and bright
            the menus are clear even without my glasses ~old
            the display is {lovely}
            {it} switch{es} on in a second
            setting {them} up was simple ~F
            the resolution beats anything at this price ~M
            {it} survived a fall down the stairs ~middle
            I binge everything on {them} now ~young F
            the specs are exactly as advertised ~M
        """,
        "bad": """
            the screen flickers
            {it} {has} three dead pixels ~M
            the glass was cracked in one corner
            {it} would not charge
            the picture is dim and greenish
            {it} reboot{s} for no reason
            the touch buttons do not react
            {it} lost all my holiday photos ~F
        """,
    },
    "appliances": {
        "items": """
            a kettle ~uk / a toaster / a hair dryer ~F / a vacuum cleaner ~F / a sewing machine ~F old
            a coffee machine / an iron
            a blender ~F / a microwave / a food processor ~F / a fan heater / a dehumidifier ~M
            a washing machine ~middle
            a tumble dryer ~uk middle / an air fryer ~young
        """,
        "good": """
            {it} {is} quieter than the old one
            {it} heat{s} up in no time
            {it} {has} made my life so much easier ~F
            the buttons are big and clear ~old
            {it} use{s} hardly any power ~M
            it is the one gadget I would save from a fire ~F
            the build quality is {lovely} ~M
            {it} look{s} {lovely} beside the cooker ~uk F
            {it} look{s} {lovely} beside the stove ~us F
            {it} run{s} from dawn to dusk in our house ~middle
        """,
        "bad": """
            {it} blew a fuse on first use
            {it} smell{s} of burnt plastic
            the cord is absurdly short
            the motor burned out
            {it} leaked all over the floor
            the lid will not close
            {it} make{s} a terrible noise
            the switch broke off in my hand
        """,
    },
    "computers": {
        "items": """
            a laptop / a gaming laptop ~M young / a netbook ~old / a desktop computer ~M / an office computer ~middle
            a refurbished notebook / a mini computer ~M / an all in one computer ~old F / a convertible laptop ~young F
        """,
        "good": """
            installation took ten minutes ~M
            {it} run{s} [cool|quiet] and fast ~M
            {it} handle{s} everything I throw at {them} ~M young
            {it} make{s} working from home bearable ~middle
            the updates installed themselves ~M
            {it} {is} exactly right for [uni|college|essays] ~young
            the video calls with the grandchildren finally work ~old
            {it} {is} so [slim|light] and pretty ~F
        """,
        "bad": """
            {it} overheat{s} after ten minutes
            two keys were missing and the fan rattles
            the firmware crashes [daily|constantly] ~M
            the hard drive is full of adverts
            the connector snapped on day one
            the memory was half of what they listed ~M
            the warranty had already expired ~M
            {it} freeze{s} whenever I open a browser
        """,
    },
    "clothing": {
        "items": """
            a dress ~F / a summer dress ~F / a winter coat / a jumper ~uk / a sweater ~us / a skirt ~F / a shirt ~M
            a suit ~M
            a pair of jeans / a pair of trousers ~uk / a pair of pants ~us / a cardigan ~F old / a hoodie ~young
            a blouse ~F
            a raincoat / a pair of leggings ~F young / a waistcoat ~M uk / a polo shirt ~M
        """,
        "good": """
            {it} fit{s} [perfectly|like a glove]
            {it} {is} so [soft|flattering|comfy] ~F
            the fabric is [thick|warm|breathable]
            the {colour} is even prettier in real life ~F
            the cut is {lovely}
            {it} wash{es} well
            I get compliments [every time|all day] ~F
            the stitching is [neat|solid] ~M
            {it} look{s} smart enough for the office ~M middle
        """,
        "bad": """
            {it} shrank in the first wash
            the seams came apart [after one wash|within days]
            the fabric is thin and [scratchy|see through]
            the size chart is useless
            {it} {was} two sizes too small
            the {colour} is nothing like the [photo|picture]
            the hem came down [immediately|at once]
            a button was missing
            {it} smelled of [smoke|chemicals]
        """,
    },
    "shoes": {
        "items": """
            a pair of boots / a pair of sandals ~F / a pair of trainers ~uk young / a pair of sneakers ~us young
            a pair of heels ~F / a pair of slippers ~old / a pair of wellies ~uk / a pair of running shoes ~M
            a pair of walking boots ~old uk / a pair of ballet flats ~F / a pair of loafers ~M / a pair of brogues ~M uk
        """,
        "good": """
            {it} fit{s} [like a dream|straight out of the box]
            {it} {is} so cute [with jeans|in real life] ~F
            my feet stay [dry|warm] all day
            the leather is {lovely}
            no blisters even after ten miles ~M
            the wide fitting suits my bunions ~old
            {it} {is} insanely comfy ~young
            the soles grip well ~M
        """,
        "bad": """
            the sole came off [in the rain|within a week]
            {it} rub{s} my heels raw
            I was sent two left shoes
            {it} leak{s} at the [toes|seams]
            the size was completely wrong
            the glue stinks
            the buckle snapped [at a wedding|on the stairs] ~F
            {it} squeak{s} with every step
        """,
    },
    "jewellery": {
        "items": """
            a necklace ~F / a pair of earrings ~F / a bracelet ~F / a charm bracelet ~F young / a silver pendant ~F
            an anklet ~F
            a locket ~F old / a pearl necklace ~F old / a silver chain ~M / a birthstone pendant / a gold chain ~M us
        """,
        "good": """
            {it} sparkle{s} [like mad|in the light] ~F
            she wears {them} every single day ~M
            the engraving is {lovely}
            the gift box is {lovely} ~F
            {it} {is} even prettier than in the picture ~F
            the workmanship is {lovely} ~M
            {it} matched my grandmother's ring ~F
            she was [delighted|speechless] ~M
        """,
        "bad": """
            the clasp broke [within days|straight away]
            the stone fell out
            {it} turned my skin green ~F
            the engraving was misspelled ~us
            the engraving was misspelt ~uk
            the silver tarnished in no time
            the gold plating wore off
            {it} look{s} like something from a cracker ~uk
        """,
        "niggle": """
            the box was a bit plain ~F / the polish wears off a bit ~F / the receipt was in the gift box ~M
            the clasp is fiddly ~old
        """,
    },
    "beauty": {
        "items": """
            a face cream ~F / a body lotion ~F / a serum ~F young / a sunscreen / a night cream ~F old
            an aftershave balm ~M
            a hand cream / a shower gel ~M / a moisturiser ~uk / a moisturizer ~us / a face mask ~F young
            a beard oil ~M
        """,
        "good": """
            my skin feels so [soft|fresh] ~F
            {it} smell{s} [divine|heavenly] ~F
            {it} smell{s} clean without being too much ~M
            my cheeks positively glow ~F
            {it} sink{s} in without a greasy film
            a little goes a long way
            no more razor burn ~M
            my wrinkles look softer ~F old
            {it} cleared up my spots ~young
        """,
        "bad": """
            {it} brought me out in a rash
            the bottle leaked [everywhere|over everything]
            {it} smell{s} [rancid|off]
            the seal was already broken
            {it} {is} clearly a fake ~F
            {it} left orange streaks on my towels ~F
            the pump is stuck
            my skin itches [like crazy|badly]
        """,
    },
    "furniture": {
        "items": """
            a bookcase ~young / a wardrobe ~uk / a dresser ~us / a desk ~young / a chest of drawers / a sideboard
            a TV stand ~M
            a bedside table ~uk / a nightstand ~us / a display cabinet ~old F / a changing table ~middle F
            a kitchen island
            a writing bureau ~old / a toy chest ~middle / a workbench ~M
        """,
        "good": """
            assembly was [a doddle|straightforward] ~uk M
            assembly was a breeze ~us M
            {it} look{s} {lovely} in our [hall|spare room] ~F
            {it} {is} [solid|heavy] and well built ~M
            {it} swallow{s} all our clutter ~F
            the oak finish is {lovely}
            every screw was there ~M
            the drawers glide like silk ~F
            {it} survived our toddlers ~middle
            the proportions suit a small retirement flat ~old
        """,
        "bad": """
            half the screws were missing
            the drawers [jam|do not close]
            one leg is shorter than the others
            {it} arrived with a huge scratch
            the veneer is already peeling
            {it} wobble{s} [dangerously|terribly]
            the holes do not line up ~M
            the back panel is mere cardboard
        """,
        "niggle": """
            assembly took all [afternoon|Sunday] ~M
            I needed my husband to lift {them} ~F
            the manual is only in [Swedish|Polish|English]
            there was a faint smell of varnish ~F
        """,
    },
    "beds and sofas": {
        "items": """
            a sofa / a couch ~us / an armchair ~old / a recliner ~old us / a mattress / a sofa bed ~young
            a futon ~young
            a corner sofa ~middle / a reading chair ~F / a loveseat ~F us / a divan ~uk old / a gaming chair ~M young
        """,
        "good": """
            my back has stopped aching ~old
            {it} {is} so comfy ~F
            I sleep like a log on {them} ~M
            the fabric is [soft|easy to wipe]
            {it} survived a spilt glass of juice ~middle
            the cushions keep their shape
            {it} tie{s} the whole room together ~F
            they took the old one away ~old
            the stitching is {lovely}
        """,
        "bad": """
            the springs poke through
            {it} sag{s} like a hammock
            the fabric bobbles already
            {it} would not go through the door
            the frame creaks at every turn
            my back is worse than before ~old
            the stuffing smells of petrol ~uk
            {it} {was} delivered in the wrong {colour}
        """,
        "niggle": """
            {it} took a week to air out
            the feet scratch our parquet ~fr
            the armrests are rather hard ~old
            the legs had to be screwed on ~M
            I wish there were more cushions ~F
        """,
    },
    "cookware": {
        "items": """
            a frying pan / a wok ~young / a casserole dish ~F uk / a baking tin ~uk F / a saucepan ~uk
            a roasting tin ~uk
            a skillet ~us / a crepe pan ~fr F / a cast iron pot ~M / a grill pan ~M / a muffin tray ~F / a stockpot
            a tagine
        """,
        "good": """
            nothing sticks [at all|any more] ~uk
            {it} {is} a joy to [cook|work] with ~F
            {it} clean{s} up in seconds
            {it} sit{s} well in the hand ~M
            my [sponge|brownies] never came out so well ~F
            my steaks get a proper crust ~M
            {it} look{s} {lovely} next to my plates ~F
            {it} even go{es} in the dishwasher
            {it} {is} not too heavy for my wrists ~old
        """,
        "bad": """
            the coating [flaked|came] off after one omelette
            the handle came loose
            {it} rusted [overnight|in days]
            {it} arrived dented
            the base is warped
            {it} leave{s} a metal taste
            {it} cracked in the oven
            everything burns in the middle
        """,
    },
    "books": {
        "items": """
            a novel ~F / a biography ~old / a crime novel / a history book ~M / a poetry collection ~old F
            a graphic novel ~young M
            a second hand paperback / a large print thriller ~old / a memoir ~F / a fantasy novel ~young / a romance ~F
            a war novel ~M old / a signed hardback ~uk / a signed hardcover ~us / a science fiction novel ~M
        """,
        "good": """
            I could not put {them} down ~F
            {it} look{s} like new
            the cover art is {lovely} ~F
            the paper smells {lovely} ~F
            the print is easy on my old eyes ~old
            I finished {them} in two bus rides ~young
            the research behind it is first rate ~M
            our reading group talked about {them} for hours ~F old
            the condition was as described
            {it} made me cry on the train ~F
        """,
        "bad": """
            forty pages were missing
            the spine [cracked|fell apart] on first reading
            somebody had scribbled in the margins
            {it} smelled of [mould|damp] ~uk
            {it} smelled of mold ~us
            {it} {was} in the wrong language
            it was the abridged edition
            the cover was [torn|stained]
        """,
        "niggle": """
            the jacket was slightly creased
            the print is [tiny|faint] ~old
            I would have liked an index ~M
            the ending drags ~F
        """,
    },
    "toys": {
        "items": """
            a dolls house ~F / a train set ~M / a wooden farm / a toy garage ~M / a pirate ship
            a racing track ~M young
            a marble run / a toy kitchen ~F / a fire engine ~uk M / a fire truck ~us M / a castle / a tractor ~old
            a toy theatre ~F uk
        """,
        "good": """
            the kids have not [stopped playing|touched the tablet since] ~middle
            the grandchildren [adore|love] {them} ~old
            {it} {is} [sturdy|chunky] and safe
            her little face lit up ~F
            the {colours} are {lovely} ~F
            I may have played with {them} myself ~young M
            the detail is {lovely} ~M
            nothing has broken so far ~M
        """,
        "bad": """
            a part came off on the first day
            the paint chips off
            the pieces do not fit together
            {it} {has} sharp edges ~F middle
            one important piece was missing
            {it} {was} broken on Christmas morning ~middle
            the stickers peel off
            the instructions are in Chinese only
        """,
    },
    "dogs": {
        "items": """
            a dog bed / a puppy harness ~F / a dog lead ~uk / a dog leash ~us / a dog coat ~F / a dog crate ~us
            a chew toy
            a collar / a dog basket ~uk old / a dog ramp ~old / a life jacket for dogs / a dog trailer ~dk de
        """,
        "good": """
            my [puppy|spaniel|poodle] [adores|loves] {them} ~F
            my fur baby is [obsessed|in heaven] ~F young
            {it} {has} survived my [terrier|labrador] ~M
            our old dog is a new animal ~old
            {it} {is} easy to clean
            the material is [chew proof|thick] ~M
            walkies are a pleasure now ~uk
            the whole family fights over who walks the dog ~middle
        """,
        "bad": """
            the dog chewed through {them} in minutes
            {it} smelled of [glue|plastic]
            the clip snapped on a walk
            {it} {is} far too small for a grown dog
            the stuffing came out at once
            my vet called {them} dangerous ~F
            the {colour} ran onto his white fur
            my dog is terrified of {them}
        """,
    },
    "cats": {
        "items": """
            a cat tree ~F / a scratching post ~F / a litter tray ~uk / a litter box ~us / a cat flap ~uk M
            a cat tunnel
            a cat bed ~F / a cat carrier / a cat hammock ~F young / a drinking fountain ~M / a window perch
        """,
        "good": """
            the cat moved in [at once|immediately]
            my [kitten|tabby] [adores|loves] {them} ~F
            her majesty approves ~F
            {it} {is} easy to clean
            both cats fight over {them}
            even our grumpy old tom [purrs|is content] ~old
            assembly was quick ~M
            {it} saved our sofa ~middle
            my feed is full of cat pictures now ~young F
        """,
        "bad": """
            my poor cat got stuck ~F
            {it} fell over with the cat on top
            {it} smelled of [glue|plastic]
            the fabric frayed in a day
            the cat is scared of {them}
            {it} {is} far too small for a grown cat
            the screws would not hold ~M
            a sharp staple was sticking out ~F
        """,
    },
    "health": {
        "items": """
            a knee brace ~M / a heating pad ~F / a massage gun ~young M / a back cushion / a wrist support ~young
            a foot massager ~F
            a neck pillow / a lumbar belt ~M / a hot water bottle ~uk F / a pair of compression socks ~old
            a walking frame ~old
            a posture belt ~middle / a nursing pillow ~F middle
        """,
        "good": """
            {it} eased my [back|hip] within days
            I can climb the stairs again ~old
            {it} {is} simple to use at my age ~old
            {it} helped me sleep through ~F
            the leaflet explains everything
            the advice on fit was {lovely}
            recovery after [football|training] is much quicker ~M young
            {it} got me through my pregnancy ~F
            desk days hurt a lot less ~middle
        """,
        "bad": """
            {it} made the pain worse
            {it} lost all shape within days
            the seal was broken
            {it} slip{s} down all the time
            {it} had clearly been used before
            my doctor told me to throw {them} away ~old
            the strap left a rash
            {it} smell{s} of rubber
        """,
    },
    "plants": {
        "items": """
            a rose bush ~F old / a tray of seedlings ~F / an apple tree ~M / a box of tulip bulbs ~F
            a lavender hedge ~fr F
            a clematis ~F old / an olive tree ~fr / a herb kit ~young / a fern ~young / a blueberry bush
            a grapevine ~M fr
            a Christmas tree / a cactus ~young
        """,
        "good": """
            {it} {has} [transformed|brightened] our patio ~F
            the robins found {them} within a day ~old uk
            {it} {is} [thriving|in full bloom]
            the roots were [moist|healthy] and strong
            {it} {has} survived two storms ~M
            the allotment has never looked better ~old uk
            the backyard looks {lovely} ~us
            even my black thumb has not killed {them} ~young
            the children water {them} every day ~middle
        """,
        "bad": """
            {it} {was} [dead|rotten] on arrival
            the leaves dropped within days
            {it} {was} crawling with [aphids|slugs]
            half of it was infested ~F
            {it} {is} not the variety I chose ~old
            the pot was smashed
            the roots were bone dry
            nothing has sprouted
        """,
    },
    "garden machines": {
        "items": """
            a lawnmower ~M / a hedge trimmer ~M / a strimmer ~uk M / a weed whacker ~us M / a leaf blower
            a pressure washer ~M
            a chainsaw ~M / a robot mower ~young M / a wood chipper ~M / a shredder ~old / a snow blower ~dk us
        """,
        "good": """
            {it} start{s} first time ~M
            {it} {is} light enough for me to handle ~F
            {it} finish{es} the lawn in half the time
            the blades are wickedly sharp ~M
            even at my age I can push {them} uphill ~old
            {it} {is} quiet enough for Sundays ~de
            the yard looks {lovely} ~us
            one charge does the front and the back ~M
            my roses have never been so tidy ~F old
        """,
        "bad": """
            the motor died after one lawn ~M
            {it} leak{s} oil on the patio
            the blades are blunt ~M
            the cable is two metres long ~de uk
            {it} rusted in the first shower
            {it} would not start
            {it} vibrate{s} until my hands go numb ~old
            a wheel came off
        """,
    },
    "power tools": {
        "items": """
            a cordless drill ~M / a circular saw ~M / a sander / a paint sprayer ~F / a jigsaw ~M / a staple gun ~F
            an angle grinder ~M
            a soldering iron ~M young / an impact driver ~M us / a glue gun ~F / a heat gun / a mitre saw ~M uk
        """,
        "good": """
            {it} make{s} short work of any job ~M
            {it} {has} plenty of power ~M
            {it} {is} light enough for my hands ~F
            the grip is comfortable
            {it} feel{s} built to last ~M
            the case keeps everything tidy ~F
            I finished the [shed|deck|bathroom] in one weekend ~M
            {it} outclass{es} my father's old one ~M old
            I upcycled three chairs with {them} ~F young
        """,
        "bad": """
            the switch jammed on the first job ~M
            {it} started smoking
            the guard was [bent|chipped]
            the battery will not hold a charge
            the handle sheared off
            {it} {is} made of [cheese|tin foil] ~M uk
            the trigger sticks
            the scale is off by a centimetre ~de uk
            the scale is off by half an inch ~us
        """,
    },
    "car parts": {
        "items": """
            a set of tyres ~uk / a set of tires ~us / a set of brake pads ~M / a car battery / an exhaust ~M
            an alternator ~M
            a pair of wiper blades ~F / an oil filter ~M / a clutch kit ~M / a set of shock absorbers ~M
            a wing mirror ~uk
            a side mirror ~us / a set of headlights / a radiator ~M
        """,
        "good": """
            fitting took ten minutes on the driveway ~M
            {it} {is} a genuine part ~M
            the ride is so much quieter
            the car passed the MOT first time ~uk M
            my mechanic was impressed ~M
            {it} look{s} brand new
            I fitted {them} myself, no man needed ~F
            the old rattle is gone ~M
            my old car is good for ten more years ~old
        """,
        "bad": """
            {it} {does} not fit the model they list ~M
            the thread was stripped ~M
            {it} whine{s} at every corner
            {it} perished within months
            it was a used part in a new box ~M
            a bracket was missing
            {it} gave up on the motorway ~uk de
            {it} gave up on the highway ~us
        """,
    },
    "bikes": {
        "items": """
            an electric bike ~old / a racing bike ~M / a cargo bike ~middle dk / a folding bike
            a mountain bike ~M young
            a city bike ~F dk / a gravel bike ~M / a touring bike ~M old / a tandem / a tricycle ~old
            a vintage bike ~F young
        """,
        "good": """
            {it} make{s} the commute [fun|easy] ~middle
            the gears shift smoothly ~M
            {it} glide{s} up hills ~old
            {it} {is} the prettiest thing on the cycle path ~F dk
            {it} arrived ready to ride ~M
            {it} {is} [light|stiff] and fast ~M young
            I ride to work every morning now ~dk
            the brakes bite well ~M
        """,
        "bad": """
            the chain snapped on day two
            the frame was scratched
            the spokes came loose
            the brakes were not even connected ~M
            the wheels are not true ~M
            {it} rattle{s} over every bump
            the display stays black
            a bolt fell out in traffic
        """,
    },
    "flowers": {
        "items": """
            a bouquet / a bunch of roses ~M / an orchid ~F / a wreath ~old / a basket of tulips ~F
            a bunch of lilies ~F
            a letterbox bouquet ~uk F young / a potted hydrangea ~F old / a centerpiece ~us F / a bunch of sunflowers ~F
        """,
        "good": """
            the blooms were [fresh|huge|fragrant]
            {it} lasted [two weeks|almost a fortnight] ~uk
            the arrangement was {lovely}
            she cried happy tears ~F
            the scent filled the house ~F
            I scored major points ~M us
            the handwritten card was a sweet touch ~F
            the tribute was done with dignity ~old
        """,
        "bad": """
            {it} {was} [wilted|brown] on arrival
            half the stems were snapped
            {it} {was} dead the next morning
            {it} looked nothing like the photo
            the card had the wrong name
            the vase was missing
            {it} missed the funeral ~old
            I looked like a cheapskate ~M
        """,
        "niggle": """
            the vase was a bit small / a few petals were bruised ~F / the card had a typo
            there were fewer stems than pictured
        """,
        "staff": "the florist / the florist ~F / the lady in the shop ~F / customer service / the {driver}",
    },
    "glasses": {
        "items": """
            a pair of reading glasses ~old / a pair of sunglasses ~young / a pair of varifocals ~old uk
            a pair of bifocals ~old us
            a pair of spectacles ~old uk / a pair of swimming goggles / a pair of computer glasses ~middle
        """,
        "good": """
            I can [finally |]read the small print again ~old
            the frames are so [cute|flattering] ~F
            the prescription is spot on ~uk
            the lenses are [clear|scratch free]
            {it} {is} light and do not slip ~M
            {it} suit{s} my face ~F
            {it} look{s} [cool|sharp] ~young M
            the virtual mirror is clever ~young
        """,
        "bad": """
            the prescription was wrong
            the arm snapped off
            {it} give{s} me headaches
            the lenses were scratched
            {it} pinch{es} my nose
            the coating peeled
            the frames are crooked
            everything is blurred on the left ~old
        """,
        "staff": "the optician / the optician / the optometrist ~us / the lady who fitted them ~F / customer service",
    },
    "wine": {
        "items": """
            a case of red ~M uk / a case of champagne ~F / a crate of riesling ~de / a box of burgundy ~fr M
            a case of rosé ~F
            a mixed case / a case of prosecco ~F young / a case of sherry ~old uk / a case of cabernet ~us
            a case of claret ~old uk M
            a box of cider ~young / a case of port ~M old
        """,
        "good": """
            {it} {has} a [smooth|long] finish ~M
            {it} went perfectly with the [roast|cheese]
            the tasting notes are honest ~M
            every bottle was carefully wrapped
            my girlfriends and I finished {them} in one evening ~F
            {it} drink{s} well already ~M old
            the bouquet is {lovely} ~fr
            {it} {was} the hit of the party ~young
        """,
        "bad": """
            two bottles were corked
            the glass was smashed
            {it} taste{s} like vinegar
            it was the wrong vintage ~M
            the label was torn
            {it} gave everybody a headache
            the cork crumbled
            {it} had been stored in the heat ~fr
        """,
    },
}

SERVICES = {
    "hotel": {
        "swift": """
            check in took two minutes
            our room was ready at noon
            fresh towels came at once ~F
            the valet had our car out front in minutes ~us
            room service was at the door in a flash
        """,
        "late": """
            our room was not ready until six
            check in took an hour
            we waited forty minutes for breakfast
            nobody came to fix the heating all night
            the transfer was two hours late
        """,
        "context": """
            we stayed [two|three|four] nights in {town}
            my husband and I spent our anniversary in {town} ~F
            my wife and I spent a long weekend in {town} ~M
            booked a double room {when}
            I was in {town} on business ~M middle
            girls' weekend in {town} ~F
            we took the grandchildren to {town} ~old
            spent our holiday there ~uk
            spent our vacation there ~us
            weekend in {town} with my mates ~young uk
        """,
        "good": """
            the room was [spotless|huge|so cosy]
            the bed was {lovely}
            breakfast was [plentiful|{lovely}]
            the view over the harbour was {lovely} ~uk dk
            the view over the harbor was {lovely} ~us
            the spa was heaven ~F
            we slept like babies
            the gym was well equipped ~M young
            the lift saved our knees ~old uk
            the elevator saved our knees ~old us
        """,
        "bad": """
            the room smelled of [damp|smoke|drains]
            there was hair in the bath ~F
            the walls are paper thin
            the sheets were stained
            the air conditioning roared all night
            we found bed bugs
            the shower was [cold|blocked|mouldy]
            they gave our room away
            the wifi never worked ~young M
        """,
        "niggle": """
            parking is tight ~M
            the pillows were rather hard ~F
            the coffee was weak
            the street is noisy at night ~old
            checkout at ten is early ~young
            the wifi was patchy
        """,
        "staff": """
            the receptionist / the girl at reception ~F / the concierge / the night porter ~uk / the chambermaid
            the barman ~M
        """,
    },
    "airline": {
        "swift": """
            we took off on the dot
            bag drop took a minute
            we were through boarding in no time
            the queue at the desk vanished in minutes ~uk
            the line at the counter moved fast ~us
        """,
        "context": """
            flew to {town} {when}
            flew home from {town} with the kids ~middle
            I flew to {town} for work ~M middle
            my sister and I flew to {town} ~F
            we flew out to see our daughter ~old
            first flight with {company}
            took the morning flight to {town}
            booked two seats to {town} for {money}
            backpacking trip, so I booked {company} ~young
        """,
        "good": """
            the seats had [plenty of legroom|real legroom] ~M
            boarding was [calm|painless|well organised]
            we landed [early|ahead of time]
            the meal was {lovely}
            the cabin crew spoiled us ~F
            my suitcase was first on the belt
            the in flight films were great ~young
            assistance for my wheelchair was {lovely} ~old
            the pram was waiting at the door ~middle uk
        """,
        "bad": """
            the flight was cancelled without warning ~uk
            the flight was canceled without warning ~us
            they lost my [suitcase|luggage|stroller]
            we sat on the [tarmac|runway] for three hours
            the seat would not recline
            they were overbooked and bumped us
            they split up our family ~middle F
            we missed the connection
            the cabin was [filthy|freezing]
        """,
        "niggle": """
            the sandwich was dry
            the legroom is tight for a tall man ~M
            boarding was a bit chaotic
            the coffee was lukewarm
            the app logged me out twice ~young
            my knees suffered ~old
        """,
        "staff": """
            the stewardess ~old / the flight attendant / the woman at the gate / the captain ~M / the man at check in
            the ground crew
        """,
    },
    "bank": {
        "context": """
            opened an account {when}
            opened my first account as a student ~young
            applied for a mortgage {when} ~middle
            moved our savings to {company} ~old
            opened a joint account with my husband ~F
            opened a joint account with my wife ~M
            transferred my pension {when} ~old
            I run a small business ~M
            sent money to my family in {town}
            needed a new card after mine was stolen
        """,
        "good": """
            the app is [clear|a joy to use|intuitive] ~young
            the interest rate is [excellent|competitive] ~M
            opening the account was child's play
            my mortgage was approved [quickly|smoothly] ~middle
            the exchange rate was [fair|excellent] ~M
            they stopped a fraud in time
            I feel my money is safe ~F
            it is a pleasure to see a real branch ~old
            budgeting has never been this simple ~F young
        """,
        "bad": """
            they froze my account without [reason|warning]
            my card was declined [abroad|at the till]
            the app locks me out [daily|every time]
            they closed my local branch ~old
            the transfer vanished
            they lost my [documents|paperwork|cheque] ~uk
            they lost my check ~us
            they rejected my identity papers three times ~de dk fr
        """,
        "niggle": """
            the app could use a dark mode ~young M
            the forms are endless ~de
            the branch closes at three ~old
            the card took a while
            the security questions are tiresome ~old
        """,
        "staff": """
            the adviser / the cashier / the clerk ~de old / the teller ~us / the branch manager
            the girl at the counter ~F
        """,
        "dear": """
            they charged {money} in fees
            the overdraft cost me {money}
            the exchange rate cost me {money}
            an account fee of {money} is outrageous
            it is a lot of money on a pension ~old
        """,
        "fair": """
            there are no [monthly |]fees
            the fees are transparent ~M
            I save {money} a year in charges
            they waived the [charge|fee] of {money}
        """,
    },
    "insurance": {
        "context": """
            claimed for a [burst pipe|broken window|stolen bike] {when}
            renewed our home insurance {when}
            took out travel cover for {town}
            insured my first car here ~young
            insured the new car {when} ~M
            insured my engagement ring {when} ~F
            insured the dog {when} ~F
            we insured the caravan {when} ~old uk
            my mobile was stolen {when} ~uk young
            my cell phone was stolen {when} ~us young
        """,
        "good": """
            the claim was settled [in full|without fuss]
            the policy is easy to understand
            the quote was the lowest of [five|eight] ~M
            the form took two minutes online ~young
            they paid out [at once|to the penny]
            I felt understood in a hard time ~F
            the cover suits pensioners ~old
            switching was painless
            they cover my teenage driver too ~middle
        """,
        "bad": """
            they rejected the claim on a technicality
            the premium doubled at renewal
            they want [a receipt|proof] for everything
            they renewed without asking
            the assessor never came
            the excess was not mentioned ~uk
            the deductible was not mentioned ~us
            they cancelled the policy while I was in hospital ~old uk
        """,
        "niggle": """
            the small print is very small ~old
            they keep calling about extras
            the online portal is dated ~M
            the letter was full of jargon
            the renewal came late
        """,
        "staff": """
            the agent / the claims handler / the adviser / the assessor ~M / the lady on the phone ~F / the broker ~M
        """,
    },
    "restaurant": {
        "context": """
            dinner for two in {town}
            took my wife there for her birthday ~M
            my husband took me there for my birthday ~F
            hen party of twelve ~F uk
            bachelorette dinner for ten ~F us
            Sunday lunch with the whole family ~middle
            golden wedding lunch for twenty ~old uk
            we ordered [a takeaway|a curry] ~uk
            we ordered takeout ~us
            drinks and tapas with [friends|my mates] ~young
            business lunch in {town} ~M
            we ate there on a [rainy Tuesday|Saturday night|whim]
        """,
        "good": """
            the food was {lovely}
            the steak was cooked [to perfection|just right] ~M
            the desserts are to die for ~F
            the portions are [generous|enormous] ~M
            the vegan menu is {lovely} ~young F
            the fish melted in the mouth
            the atmosphere was so cosy ~F dk
            the wine list is well chosen ~fr M
            the high chairs and crayons were a nice touch ~middle
            we could actually hear each other talk ~old
        """,
        "bad": """
            the food was [cold|bland|greasy|inedible]
            my chicken was raw
            there was a hair in my soup ~F
            the table was sticky
            they forgot half our order
            the steak was like leather ~M
            my salad had a caterpillar in it ~F
            we were ill all night ~uk
            the music was deafening ~old
        """,
        "niggle": """
            the tables are close together
            the music was a little loud ~old
            the dessert menu is short ~F
            the beer could be colder ~M
            they only take cards ~de old
            there is no children's menu ~middle
        """,
        "staff": """
            the waiter / our waitress / the server ~us / the chef / the owner / the hostess ~us
            the young waitress ~old
        """,
        "swift": """
            the food came quickly
            we were seated [at once|straight away]
            there was no queue ~uk
            there was no line ~us
            the starters arrived within minutes
            the waiter came immediately ~fr
        """,
        "late": """
            we waited [an hour|ninety minutes] for the mains ~uk
            we waited an hour for our entrees ~us
            our drinks never came
            our reservation was lost
            the food arrived an hour late
        """,
        "dear": """
            {money} for a burger is a joke ~M
            they added a service charge of {money} ~uk
            the bill was wrong by {money}
            {money} for a bottle of water is cheeky
            the tip was added without asking ~us
        """,
        "fair": """
            the set menu is [great value|a bargain]
            {money} for three courses is fair
            the house wine is cheap and good ~M fr
            happy hour is a steal ~young
            kids eat free ~middle
        """,
        "again": "go back / come again / eat there again / be back / book again / return ~old / bring friends",
    },
    "phone contract": {
        "context": """
            switched my number to {company} {when}
            got a SIM for {money} a month
            signed up for unlimited data ~young
            upgraded my mobile {when} ~uk
            upgraded my cell phone {when} ~us
            got family plans for all five of us ~middle
            my grandson set me up with {company} ~old
            my boyfriend and I share a plan ~F young
            moved my work phone to {company} ~M middle
        """,
        "good": """
            the signal is [strong|rock solid] [everywhere|even indoors]
            keeping my number was easy
            streaming never stutters ~young
            roaming just works ~M
            the data never runs out ~young
            video calls with mum are crystal clear ~F uk
            the tariff is simple enough for me ~old
            the app shows exactly what I use ~M
            activation was automatic
        """,
        "bad": """
            there is no signal [at home|in half of {town}]
            my number was cut off for a week
            calls drop every few minutes
            they sold me the wrong tariff
            they locked my handset
            the data runs out after a day ~young
            they signed me up for extras I never asked for
            I cannot get out of the contract
        """,
        "niggle": """
            indoor reception is weak
            the hold music is awful ~F
            the app drains the battery ~young
            the bill is hard to read ~old
            roaming costs extra ~M
        """,
        "staff": """
            the sales guy ~M / the girl in the store ~F / the agent / the chat agent ~young
            the young man in the shop ~old / support
        """,
    },
    "broadband": {
        "context": """
            had fibre installed {when} ~uk
            had fiber installed {when} ~us
            switched our internet to {company}
            moved house and took {company} along ~middle
            moved into a flat share in {town} ~young uk
            I work from home ~middle
            ordered the fastest line for gaming ~M young
            my son in law ordered the internet for us ~old
            signed up after a call from {company}
        """,
        "good": """
            the speed is [rock solid|as promised|insane] ~M
            the ping is low enough for gaming ~M young
            installation was neat and tidy ~F
            no dropouts since day one ~M
            movie nights are finally smooth ~F
            the router covers all three floors
            four of us can stream at once ~middle
            I can see the grandchildren without freezing ~old
        """,
        "bad": """
            the line drops [hourly|every evening]
            we get a tenth of the promised speed ~M
            the router is a piece of junk ~M
            they dug up the flower bed for nothing ~F old
            we were offline for [two weeks|a month]
            the engineer never showed up
            the upload is unusable ~M
            I lost a client because of an outage ~middle
        """,
        "niggle": """
            the router is ugly ~F
            upload could be faster ~M
            the cable ends in the wrong corner
            the manual is pure jargon ~old
            evenings are a little slow ~young
        """,
        "staff": """
            the engineer ~uk / the technician / the installer ~us / tech support / the lad who came ~uk old
            the fitter ~uk
        """,
    },
    "energy supplier": {
        "context": """
            switched our electricity {when}
            changed gas supplier {when}
            had a smart meter fitted {when}
            had solar panels put up {when} ~M
            moved into our first home {when} ~young
            we heat with gas and have two toddlers ~middle
            got a quote for green power ~F
            we changed supplier after forty years ~old
            had a heat pump installed {when} ~dk de
        """,
        "good": """
            the switch went [smoothly|without a hitch]
            the bills are easy to read
            the green tariff really is green ~F young
            the app shows every kilowatt ~M
            the meter was fitted with care
            our house is warm again ~F
            the direct debit went down ~uk
            they look after older customers ~old
            the panels already pay for themselves ~M
        """,
        "bad": """
            the bills are pure guesswork
            they tripled our direct debit ~uk
            the meter has been wrong for months
            they sent the bailiffs for another house ~uk
            they cut us off by mistake
            our boiler went cold with a baby in the house ~F middle
            they estimate instead of reading the meter ~M
            they billed the previous tenant's debt ~young
        """,
        "niggle": """
            the website is confusing
            the display is hard to read ~old
            readings must be sent by hand ~M
            the welcome letter came late
            the tariff names are silly
        """,
        "staff": """
            the agent / the meter man ~old / the adviser / the fitter ~uk / the lady in billing ~F
            the call centre ~uk / the call center ~us
        """,
    },
    "car hire": {
        "context": """
            hired a car in {town} ~uk
            rented a car in {town} ~us
            rented a car at the airport {when}
            picked up an estate car for our holiday ~uk middle
            picked up an SUV for our road trip ~us
            booked a convertible for our honeymoon
            hired a van to move my stuff ~young uk
            my wife and I rented a camper ~M
            my husband booked a car in {town} ~F
            two weeks of touring with an automatic ~old
        """,
        "good": """
            the car was [spotless|nearly new|a joy to drive]
            pick up took five minutes
            they upgraded us for free
            the engine had real punch ~M
            the child seats were already fitted ~middle F
            returning the keys was a doddle ~uk
            dropping it off was a breeze ~us
            the sat nav was included ~uk
            the car felt safe and easy to park ~F
        """,
        "bad": """
            the tyres were bald ~uk
            the tires were bald ~us
            they blamed us for an old scratch
            the car stank of smoke
            the desk was closed when we landed
            they gave us a much smaller car
            the brakes squealed ~M
            they held my deposit for weeks
            the child seat was filthy ~F middle
        """,
        "niggle": """
            the shuttle is a bit slow
            the tank was only half full ~M
            the interior had a few crumbs ~F
            the car park is hard to find ~uk
            the lot is hard to find ~us
        """,
        "staff": """
            the man at the desk / the lady at the desk ~F / the agent / the clerk ~us
            the guy at the counter ~M young
        """,
    },
    "courier": {
        "context": """
            sent a [guitar|parcel|suitcase] to {town} ~uk
            sent a [guitar|package|suitcase] to {town} ~us
            shipped my things home after college ~young us
            posted birthday presents to my grandchildren ~old uk
            sent a wedding dress to my sister in {town} ~F
            sent spare parts to a customer in {town} ~M
            booked a same day collection {when}
            sold a [lamp|coat|guitar] online and booked {company} ~young
        """,
        "good": """
            it got there [in one piece|overnight|intact]
            the tracking was accurate to the minute ~M
            collection was on time
            they carried it up four floors
            the label was easy to print
            the app pinged at every stop ~young
            everything was handled with such care ~F
            they even phoned before calling round ~old uk
        """,
        "bad": """
            they smashed the contents
            it has been in the depot for [ten days|weeks]
            they delivered to the wrong [street|town]
            the signature is a forgery
            they claim nobody was home
            they threw it over the fence
            grandma's china arrived in shards ~F
            the tracking has not moved since {month}
        """,
        "niggle": """
            the time slot is four hours wide
            the label would not print at first
            the shop for drop off closes early
            the text came too late ~young
            the box was a bit dented
        """,
        "staff": """
            the driver / the courier ~uk / the dispatcher ~us / the chap in the van ~uk old / the lady at the depot
            support
        """,
    },
    "garage": {
        "context": """
            took my [Golf|Fiesta|Polo] in for a service ~uk de
            took my truck in for an oil change ~us M
            booked an MOT {when} ~uk
            the exhaust was rattling ~M
            had winter tyres fitted ~uk dk de
            had new tires put on ~us
            my clutch went on the school run ~F middle
            as a woman I dread the garage ~F
            I have driven for fifty years ~old
            my first car broke down {when} ~young
        """,
        "good": """
            they explained the repair [without jargon|step by step]
            the engine purrs again ~M
            they showed me the worn parts ~M
            they did not talk down to me ~F
            the car came back washed ~F
            they only fixed what was broken
            they lent me a car for the day
            it passed first time ~uk
            they fitted me in between school runs ~middle
        """,
        "bad": """
            they left the oil cap off ~M
            the same fault was back [next day|within a week]
            they scratched the door
            they replaced parts that were fine ~M
            the car was covered in grease
            they invented a fault because I am a woman ~F
            they forgot to tighten the wheels
            the warning light is still on
        """,
        "niggle": """
            the waiting room is chilly
            the coffee machine was broken
            parking is tight
            they forgot to reset the service light ~M
            the seat had an oily mark ~F
        """,
        "staff": """
            the mechanic / the owner / the lad at the desk ~uk / the fitter ~uk / the service writer ~us
            the woman in the office
        """,
    },
    "train": {
        "swift": """
            we left on the dot
            the ticket machine took seconds
            changing platforms was quick
            we arrived ahead of the timetable
        """,
        "context": """
            took the train to {town} {when}
            I commute to {town} every day ~middle
            travelled to {town} with a senior railcard ~old uk
            took the night train to {town} ~young
            took the family to {town} by rail ~middle
            my girlfriends and I took the train to {town} ~F
            took the high speed train to {town} ~fr de
            rode the Amtrak to {town} ~us
            travelled with my bicycle to {town} ~dk
        """,
        "good": """
            the carriage was [modern|bright|almost empty]
            the seats were [roomy|comfy|clean]
            the quiet coach was truly quiet ~old
            the wifi held all the way ~young M
            the views were {lovely}
            the buffet car was well stocked ~M
            changing was easy
            the family compartment was a godsend ~middle F
            I could work the whole way ~middle
        """,
        "bad": """
            the train was cancelled [at the last minute|twice] ~uk
            we stood all the way
            the toilets were [locked|disgusting]
            the heating had failed
            the connection left without us
            our seat reservations did not exist
            nobody announced anything
            the carriage was full of drunk men ~F
            there was no ramp for my wheelchair ~old
        """,
        "niggle": """
            the sockets did not work ~young
            the aisle was full of luggage
            the announcements were hard to hear ~old
            the tea was weak ~uk
            the ticket app is slow ~young
        """,
        "staff": """
            the conductor / the guard ~uk / the ticket inspector ~de / the lady with the trolley ~old uk
            the man at the kiosk
        """,
        "late": """
            we arrived two hours late
            it was an hour late again
            it was late every single day ~middle
            the delay cost me a job interview ~young
            we waited ninety minutes on a cold platform
        """,
    },
    "gym": {
        "swift": """
            signing up took two minutes
            I was in and out in forty minutes
            every class starts on the dot
            my induction was arranged the same day
        """,
        "late": """
            I waited {ages} for an induction
            every class starts late
            I queue for the showers each time ~uk
            I wait in line for every machine ~us
            it took {ages} to cancel my membership
        """,
        "context": """
            joined in {month} [with a friend|to lose weight|after physio]
            signed up for a [yoga|spin|pilates] class ~F
            signed up to train for a marathon
            joined for the free weights ~M young
            I train there before work ~middle
            I swim there every morning ~old
            student membership for {money} ~young
            my wife gave me a membership ~M
            my best friend dragged me along ~F young
        """,
        "good": """
            the equipment is [modern|well maintained] ~M
            the classes are so much fun ~F
            there is never a wait for the squat rack ~M young
            the changing rooms are spotless ~F
            the pool is warm and quiet ~old
            I have lost ten pounds ~us F
            I have lost a stone ~uk F
            the music is banging ~young uk
            the creche is a blessing ~middle F
            nobody judges a beginner ~F
        """,
        "bad": """
            half the machines are broken ~M
            the showers are [cold|filthy]
            men stare and nobody steps in ~F
            they kept charging after I quit
            the lockers were broken into
            the sauna has been closed since {month}
            the classes are always full ~F
            it is packed after six ~young
        """,
        "niggle": """
            the playlist gets repetitive ~young
            it is crowded after work
            more kettlebells would be nice ~M
            the mirrors need a wipe ~F
            the water in the pool is a little cool ~old
        """,
        "staff": """
            the trainer / my instructor / the girl at the desk ~F / the coach ~M / the guy at the desk ~young
            the lifeguard ~old
        """,
    },
    "hairdresser": {
        "context": """
            had a cut and colour {when} ~F uk
            had a cut and color {when} ~F us
            went in for a beard trim ~M
            went in for a [trim|haircut|fringe] {when} ~F uk
            wanted bangs and highlights ~F us
            had my hair done for a wedding ~F
            walked in for a fade ~M young
            took my son for his first haircut ~middle
            my weekly shampoo and set ~F old
            quick cut before a job interview ~young
        """,
        "good": """
            my hair has never looked so [shiny|healthy|good] ~F
            the head massage was bliss ~F
            the fade is clean ~M young
            the beard is razor sharp ~M
            my highlights look natural ~F
            it was exactly the cut from the photo
            I walked out ten years younger ~F old
            no small talk, just a good cut ~M
            they were gentle with my little boy ~middle
        """,
        "bad": """
            my fringe is crooked ~F uk
            my hair turned [orange|green] ~F
            they burned my scalp
            they cut off twice what I asked ~F
            they nicked my ear ~M
            I look like a [scarecrow|mushroom]
            the roots were missed ~F
            the fade is uneven ~M young
        """,
        "niggle": """
            the magazines are old ~F
            the radio was loud ~old
            the chair was not very comfortable
            no parking nearby ~M
            they were pushing products ~F
        """,
        "staff": """
            the stylist ~F / the barber ~M / my hairdresser ~F / the colourist ~F uk / the colorist ~F us / the junior
            the trainee
        """,
    },
    "dentist": {
        "context": """
            went in with a raging toothache
            had a crown fitted {when} ~old
            first check up in years ~M
            took the children for a check up ~middle
            I am terrified of dentists ~F
            had my wisdom teeth out {when} ~young
            had new dentures made {when} ~old
            came in for whitening before my wedding ~F
            chipped a tooth at hockey ~M
        """,
        "good": """
            I did not feel a thing
            the filling is [invisible|perfect]
            they calmed my nerves ~F
            the practice is [modern|spotless]
            every step was explained ~M
            I can chew on the left again ~old
            my smile looks {lovely} ~F
            my kids actually want to go back ~middle
            the x ray was done on the spot ~M
        """,
        "bad": """
            the filling fell out [the same week|after a day]
            they drilled the wrong tooth
            I was in agony for days
            the anaesthetic did not work ~uk
            the anesthetic did not work ~us
            my dentures do not fit ~old
            they ignored me when I cried ~F
            they push implants nobody needs ~M
        """,
        "niggle": """
            the waiting room is small
            the posters are grim ~F
            appointments are hard to get
            the chair is short for a tall man ~M
            reception was a bit muddled ~old
        """,
        "staff": "the dentist / the hygienist / the nurse ~F / the receptionist / the assistant / the surgeon ~M",
    },
    "plumber": {
        "context": """
            our boiler broke down {when} ~uk
            our water heater broke {when} ~us
            a pipe burst {when}
            had a new bathroom fitted {when}
            the toilet was blocked with guests coming ~F
            the tap in the kitchen dripped for months ~uk
            the faucet in the kitchen dripped for months ~us
            no hot water with a newborn ~middle F
            my landlord sent {company} round ~young uk
            I tried to fix the cistern myself ~M
            my late husband always did the repairs ~F old
        """,
        "good": """
            the leak was gone in minutes
            the new shower is {lovely}
            he took off his boots at the door ~F
            the joints are clean work ~M
            they left no mess at all ~F
            the boiler runs [quietly|like clockwork]
            they came out on a Sunday
            they did not take advantage of an old lady ~F old
            the pressure is better than ever ~M
        """,
        "bad": """
            the leak is worse than before
            they flooded the [kitchen|ceiling below]
            they cracked three tiles
            the boiler failed again overnight
            they left [mud|rubble] all over my carpet ~F
            the fittings are bodged ~M uk
            they never came back to finish
            they turned off the wrong valve ~M
        """,
        "niggle": """
            they left a smear on the wall ~F
            the radio was on all day
            the sealant could be neater ~M
            they parked across the drive ~uk
            they started at seven ~young
        """,
        "staff": """
            the plumber / the lad who came ~uk / the apprentice / the engineer ~uk / the contractor ~us
            the handyman ~us / the office
        """,
        "fair": """
            the bill matched the quote ~M
            they charged {money} [less|as agreed]
            there was no call out fee ~uk
            {money} was more than fair
            they gave a pensioner discount ~old
        """,
    },
    "removals": {
        "context": """
            moved from {town} to {town} {when}
            we downsized after forty years ~old
            moved out of halls {when} ~young uk
            moved out of my dorm {when} ~young us
            moved a family of five to {town} ~middle
            they moved my mother's piano ~F
            I moved my workshop to {town} ~M
            my boyfriend and I moved in together ~F young
            put our things in storage {when}
        """,
        "good": """
            not a single [plate|glass|mug] was broken
            they wrapped everything beautifully ~F
            they worked like machines ~M
            the van was loaded in two hours
            they even rebuilt the [beds|wardrobes]
            the piano is still in tune
            they were so gentle with mum's things ~F uk
            they joked with the kids all day ~middle
            they sent three strong men ~old
        """,
        "bad": """
            they broke the [mirror|dresser|television]
            half the boxes are missing
            they scratched the new floor
            they turned up with a tiny van
            they left my plants outside overnight ~F
            they lost the screws of every bed ~M
            my grandmother's clock is in pieces ~F old
            they dumped everything in the hall
        """,
        "niggle": """
            two boxes ended up in the wrong room
            they smoked by the door ~F
            they could have brought more blankets ~M
            the inventory list was untidy
            they were short of tape
        """,
        "staff": """
            the foreman ~M / the crew / the team leader / the older mover / the lad with the van ~uk
            the lady in the office ~F
        """,
    },
    "cinema": {
        "swift": """
            we were in our seats within minutes
            there was no queue for snacks ~uk
            there was no line for snacks ~us
            the film started on the dot
            booking in the app took seconds ~young
        """,
        "late": """
            the film started forty minutes late
            we queued for half an hour ~uk
            we stood in line for half an hour ~us
            the doors opened late
        """,
        "context": """
            saw the late show in {town} ~young
            date night with my boyfriend ~F young
            date night with my girlfriend ~M young
            took the kids to the Saturday matinee ~middle
            saw an opera broadcast ~old
            saw a superhero film with my mates ~young M uk
            saw a superhero movie with my buddies ~young M us
            girls' night with popcorn ~F
            we saw a subtitled film in {town} ~dk fr de
        """,
        "good": """
            the seats recline all the way
            the sound shook my ribs ~M young
            the screen is huge
            the popcorn was [fresh|warm]
            the cocktails are so cute ~F young
            the foyer is gorgeous ~F
            the subtitles were easy to read ~old
            the baby friendly show is genius ~middle F
            there were hardly any adverts
        """,
        "bad": """
            the projector broke halfway through
            people talked the whole time
            the floor was sticky
            the seats were [torn|stained]
            the sound was out of sync ~M
            our seats were sold twice
            the heating was off and I froze ~F
            the volume hurt my ears ~old
        """,
        "niggle": """
            the snacks cost more than the ticket
            the adverts went on a bit
            the cup holder was broken
            legroom is tight ~M
            the toilets are two floors down ~old
        """,
        "staff": """
            the usher / the girl at the bar ~F / the guy at the box office ~us M / the young man at the kiosk ~old
            the manager
        """,
        "again": "go back / go there again / be back / bring friends / return ~old",
    },
    "nursery": {
        "swift": """
            we got a place within a week
            they answer messages the same day
            settling in took three days ~F
            pick up takes a minute ~M
        """,
        "late": """
            we waited {ages} for a place
            it took {ages} to get a meeting
            they open late every other morning ~middle
            nobody told us for two days
        """,
        "context": """
            our son started there {when} ~M
            my daughter started there {when} ~F
            my twins have been there since {month} ~F
            we needed daycare in a hurry ~us
            we needed a nursery place in a hurry ~uk
            I collect my grandson from there ~old
            both of us work full time ~middle
            I went back to work in {month} ~F
            single dad with a toddler ~M
        """,
        "good": """
            she skips in every morning ~F
            he has learned so many songs ~F
            the playground is {lovely}
            the meals are fresh and healthy
            the daily photos make my day ~F
            the opening hours suit working parents ~middle
            drop off is well organised ~M
            they treat grandparents like family ~old
            the rooms are bright and [clean|cosy]
        """,
        "bad": """
            they lost his coat [twice|again]
            she came home with bruises ~F
            the nappies were not changed ~uk
            the diapers were not changed ~us
            they forgot her allergy ~F
            the carers change every week ~uk
            the gate was left open ~M
            he watches cartoons all day
        """,
        "niggle": """
            parking at five is chaos ~M
            the fees are rising again
            the newsletter is rather long
            the shoes come home full of sand ~F
            the app sends too many photos
        """,
        "staff": """
            the nursery nurse ~uk / the teacher / the key worker ~uk / the manager / the director ~us
            the childminder ~uk
        """,
    },
    "cruise": {
        "swift": """
            boarding took ten minutes
            drinks came at once
            our cases were in the cabin before us
            every tender left on time
        """,
        "late": """
            boarding took four hours
            we waited an hour for every meal
            we sailed a day late
            our cases came at midnight
        """,
        "context": """
            two weeks along the coast of Norway ~dk de
            Caribbean cruise for our honeymoon ~us
            my late retirement present ~old
            we cruised the Danube {when} ~old de
            my sister and I shared a cabin ~F
            my wife and I had an outside cabin ~M
            our ruby wedding cruise ~old uk
            took the whole family to sea ~middle
            spring break on a ship ~young us
        """,
        "good": """
            the cabin was [spotless|{lovely}]
            the excursions were well guided
            the buffet was endless ~M
            the shows were {lovely} ~F
            the ballroom evenings were a delight ~old F
            the kids club was a hit ~middle
            the sea views were {lovely}
            the engine tour was a highlight ~M
            the pool parties went on all night ~young
        """,
        "bad": """
            the cabin smelled of [diesel|sewage]
            half the ship had a stomach bug
            they skipped three ports
            the buffet was lukewarm
            the lifts were out for days ~uk old
            the spa was closed all week ~F
            the engines kept us awake ~M
            they lost our dinner seating ~old
        """,
        "niggle": """
            the wifi costs extra ~young
            the bar shuts early ~M
            the balcony was small
            the towels were a little thin ~F
            the queue for breakfast was long ~uk
        """,
        "staff": """
            the steward / the cruise director ~us / the captain ~M / our waiter / the purser ~uk old / the entertainer
        """,
    },
    "estate agent": {
        "context": """
            sold our house through {company} {when} ~uk
            we bought our first condo {when} ~us
            we bought our first flat {when} ~uk young
            rented a studio in {town} ~young
            let out my late mother's house ~old
            we viewed nine houses in {town} ~middle
            sold my parents' farm {when} ~M old
            we rented a room near campus ~young
            looked for a family home in {town} ~F middle
        """,
        "good": """
            the house sold in a week
            the photos were {lovely}
            we got more than the asking price ~M
            the paperwork was done right ~M
            they understood what we needed as a family ~F middle
            the viewings were so relaxed ~F
            the contract was clear ~de
            they did not pressure us at all
            my deposit came back in full ~young
        """,
        "bad": """
            they sent nobody to the viewings
            the photos hid the damp
            they kept my deposit ~young
            the contract was full of errors ~M
            they sold to somebody else behind our backs
            they lied about the lease ~uk
            they valued it far too low ~M
            the flat had mice and no heating ~F young
        """,
        "niggle": """
            the photos could be brighter ~F
            the keys were late
            they text too often
            the fee is on the high side ~M
            the brochure had a typo ~old
        """,
        "staff": """
            the agent / the realtor ~us / the negotiator ~uk / the landlord ~young / the young man in the suit ~old
            the lady in lettings ~F
        """,
    },
}

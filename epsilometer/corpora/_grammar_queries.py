"""The grammar of the synthetic queries: what travellers and owners of a voice assistant ask for.

Notation (read by `synthetic.py`): a rule is a list of alternatives, one a line or separated by " / ". `{name}` stands
for another rule, `[a|b|]` for one of a few options in place. `{person}`, `{reference}` and `{phone}` are planted
identifiers. Each intent has commands (`do`, a verb phrase that a polite form can wrap) and complete utterances (`say`).
"""

from __future__ import annotations

COMMON = {
    "query": """
        {do}
        {do}
        {do}
        {do}
        {do}
        {do} [please|thanks|if you can|when you get a chance|right away]
        please {do}
        [hey|okay|hi|alright|so|um|okay so] {do}
        [can|could|would|will] you [|||please |quickly |kindly ]{do}
        [i want you to|i need you to|i'd like you to|go ahead and|let's|be so kind as to] {do}
        {say}
        {say}
        {say}
        {say}
        {say}
        {say}
        {say}
        {say}
        {say}
        {say}
        {say}
        {say}
        [hi|hello|okay|well|yes|right|so|um|hey|quick question] {say}
        {say} [please|thanks|again|by the way]
    """,
    "city": """
        new york / boston / denver / atlanta / chicago / dallas / seattle / san francisco / los angeles / miami
        phoenix / philadelphia / baltimore / pittsburgh / milwaukee / oakland / houston / orlando / tampa / memphis
        nashville / cleveland / detroit / minneapolis / salt lake city / kansas city / las vegas / san diego / charlotte
        indianapolis / st louis / portland / austin / honolulu / anchorage / new orleans / washington / columbus
        toronto / montreal / vancouver / mexico city / lima / bogota / buenos aires / santiago / rio de janeiro
        london / manchester / edinburgh / glasgow / dublin / paris / nice / lyon / amsterdam / brussels / copenhagen
        oslo / stockholm / helsinki / berlin / hamburg / munich / frankfurt / vienna / zurich / geneva / milan / rome
        venice / naples / madrid / barcelona / lisbon / porto / athens / istanbul / warsaw / prague / budapest
        cairo / nairobi / cape town / lagos / marrakesh / dubai / mumbai / delhi / bangkok / singapore / hong kong
        tokyo / osaka / seoul / taipei / beijing / shanghai / sydney / melbourne / auckland / jakarta / manila
    """,
    "airline": """
        united / delta / american / southwest / continental / twa / us air / northwest / jetblue / alaska airlines
        british airways / lufthansa / air france / klm / sas / iberia / ryanair / easyjet / emirates / qantas
        cathay pacific / singapore airlines / turkish airlines / air canada / aer lingus / norwegian / swiss
        midwest express / frontier / virgin atlantic / finnair / eva air / ethiopian / tap portugal / hawaiian
    """,
    "airport": """
        heathrow / gatwick / jfk / la guardia / newark / o'hare / midway / dulles / schiphol / kastrup / logan airport
        charles de gaulle / orly / fiumicino / changi / narita / tegel / arlanda / stansted / love field / sky harbor
    """,
    "weekday": "monday / tuesday / wednesday / thursday / friday / saturday / sunday",
    "month": """
        january / february / march / april / may / june / july / august / september / october / november / december
    """,
    "ordinal": """
        first / second / third / fourth / fifth / sixth / seventh / eighth / ninth / tenth / eleventh / twelfth
        fourteenth / fifteenth / sixteenth / eighteenth / twentieth / twenty first / twenty third / twenty fifth
        twenty seventh / twenty eighth
    """,
    "day": """
        [this|next|on|on] {weekday}
        on {weekday} [morning|afternoon|evening|night]
        tomorrow[| morning| afternoon| evening]
        on {month} {ordinal}
        on the {ordinal} of {month}
        this weekend / next week / the day after tomorrow / later this week / on the last {weekday} of {month}
        in [early|mid|late] {month}
    """,
    "date": """
        [this|next|on|on] {weekday}
        [tomorrow|]
        on {month} {ordinal}
        on the {ordinal} of {month}
        [the day after tomorrow|]
    """,
    "hour": "one / two / three / four / five / six / seven / eight / nine / ten / eleven / twelve",
    "clock": """
        {hour} [am|pm] / {hour} thirty / half past {hour} / quarter to {hour} / {hour} o'clock / noon / midnight
        {hour} fifteen [am|pm]
    """,
    "time": """
        [before|after|around|at|by] {clock}
        in the [morning|afternoon|evening|early morning|late afternoon]
        [just after lunch|before sunrise|early in the day|late at night|around midday]
    """,
    "relative": """
        my wife / my husband / my mother / my father / my sister / my brother / my boss / my son / my daughter
        my roommate / my grandmother / my uncle / my cousin / my neighbor / my best friend / my dentist / my landlord
    """,
    "cabin": "economy / coach / business class / first class / premium economy / standby",
}

INTENTS = {
    "flight": {
        "say": """
            what flights [are there|do you have|go] from {city} to {city} {date}
            which flights leave {city} for {city} {date}
            which {airline} flights [arrive in|land in|reach] {city} {time}
            i need a [one way|round trip|nonstop|direct|connecting|red eye] flight from {city} to {city}
            i'd like to fly from {city} to {city} {date}
            i would like to fly {airline} [from|out of] {city} {date} {time}
            is there a [nonstop|direct|later|morning|night] flight from {city} to {city} {time}
            are there any flights on {airline} [from|out of] {city} to {city}
            [flights|all flights|nonstop flights] from {city} to {city} {date}
            {city} to {city} {date} [one way|in {cabin}|returning {weekday}|for two adults]
            do any {airline} flights from {city} [stop in|connect through] {city}
            what's the [earliest|latest|first|last|next] flight [from|out of] {city} to {city}
            what flights get me to {city} [by|before] {clock} {date}
            i want to [leave|depart from] {city} {date} and [return|come back|fly home] {date}
            does {airline} fly from {city} to {city} [daily|every day|on weekends|on sundays|in winter]
            looking for a [quick|late|red eye|daytime] flight to {city} that leaves {city} {time}
            which flights from {city} serve [dinner|breakfast|a hot meal|lunch] on the way to {city}
            {relative} and i want to travel from {city} to {city} {date}
            any flights to {city} [with a stopover in|by way of|through] {city} {date}
            we are flying into {airport} and need an onward connection to {city} {date}
            what can i catch from {airport} to {city} {time}
            is the {clock} flight from {city} to {city} [full|on time|still available|a jet]
        """,
        "do": """
            show me [all|the|the evening|the earliest] flights from {city} to {city} {date}
            list the {airline} flights that [arrive in|leave from|stop in] {city} {time}
            find me a [nonstop|direct|morning|late|] flight to {city} leaving {city} {date}
            book [me|us|{relative}] a [window|aisle] seat on the {clock} flight to {city}
            give me the flights between {city} and {city} {date}
            search for [return |direct |]flights from {airport} to {city} in {month}
            reserve two [{cabin} |]seats from {city} to {city} {date}
            check whether {airline} has anything to {city} {date} {time}
            look up departures from {airport} to {city} {time}
        """,
    },
    "airfare": {
        "say": """
            what's the [cheapest|lowest|best] fare from {city} to {city} {date}
            how much [is|does] a [one way|round trip|return|first class|child's] ticket from {city} to {city} cost
            how much would it cost to fly to {city} {date}
            what are the [lowest|weekend|economy|student|standby] fares [from|out of] {city} to {city}
            what does {airline} charge for a [round trip|one way|last minute] ticket to {city}
            i want the [least|most] expensive [round trip|one way] ticket between {city} and {city}
            i can spend at most {dollars} dollars on a flight to {city}
            are there any fares under {dollars} dollars from {city} to {city}
            is it cheaper to fly {airline} or {airline} to {city}
            {cabin} fare [from|between] {city} [to|and] {city} {date}
            price of a [round trip|one way|nonstop] ticket to {city} on {airline}
            do [students|seniors|children|families] get a discount on fares to {city}
            why are tickets to {city} so [expensive|cheap|pricey] in {month}
            which airline has the [cheapest|best value] seats from {city} to {city}
            what would two tickets to {city} cost [{date}|in {month}|in {cabin}]
            has the fare to {city} [gone up|come down|changed] since {weekday}
            can i fly from {city} to {city} for less than {dollars} dollars
            i need the fare for flight {number} from {city} to {city}
            round trip fares from {city} to {city} under {dollars} dollars
        """,
        "do": """
            show me the [cheapest|lowest|best] fares from {city} to {city}
            list round trip fares between {city} and {city} in {month}
            compare {airline} and {airline} prices for a trip to {city}
            tell me what a {cabin} ticket from {city} to {city} costs
            find tickets to {city} for under {dollars} dollars
            alert me when fares to {city} [drop|fall] below {dollars} dollars
            get me a [quote|price] for three seats to {city} {date}
            sort the [morning|evening|nonstop] flights to {city} by price
        """,
        "dollars": """
            eighty / ninety / one hundred / two hundred / two fifty / three hundred / four hundred / five hundred
            six hundred and fifty / seven hundred / eight hundred / nine hundred / one thousand / twelve hundred
        """,
        "number": "417 / 82 / 1039 / 269 / 705 / 3357 / 811 / 21 / 1291 / 633 / 459 / 928 / 2153 / 71 / 106",
    },
    "ground_transport": {
        "say": """
            what [ground transportation|public transport] is [available|there] in {city}
            how do i get from {airport} [to downtown|to the center of town|to my hotel|to the old town]
            is there a [shuttle|bus|train|limousine|tram|ferry] from {airport} into [town|the city]
            how much is a [taxi|cab|limo|minicab|rideshare] from {airport} to [downtown|the city center|the harbor]
            do i need a rental car in {city}
            where can i [rent|pick up|return] a car at {airport} {time}
            what's the fastest way from {airport} to [downtown|the city center] {time}
            ground transportation [in|for] {city} {time}
            does {city} have a [metro|subway|monorail|light rail|tram line|night bus]
            which [bus|train|shuttle] goes from {airport} to the [convention center|main station|university|old town]
            i need a [limousine|taxi|van|car with a driver|wheelchair taxi] in {city} {date}
            how often does the [airport express|shuttle bus|night bus|metro] run in {city}
            are there [taxis|rental cars|shuttles|trams] at {airport} after {clock}
            how long is the [cab|bus|train|shuttle] ride from {airport} to [downtown|the fairgrounds|the beach]
            rental cars at {airport} {date}
            we land at {airport} {date} and need a ride to [our hotel|the port|downtown]
            what are the car rental rates in {city}
            can i take the [train|subway|tram] from {airport} all the way [downtown|to the harbor|to the stadium]
        """,
        "do": """
            show me [ground transportation|car rentals|airport transfers] in {city}
            find me a [shuttle|cheap rental car|taxi|minibus|ride] at {airport} {date}
            tell me [about|how to use] public transport in {city}
            book a [cab|car|minivan|taxi|limousine] from {airport} to [my hotel|downtown|the ferry terminal] {date}
            list the [bus|shuttle|rental car] companies that serve {airport}
            call me a [taxi|cab|ride] to {airport} for {clock}
            reserve a [compact|convertible|station wagon|small electric car] in {city} {date}
        """,
    },
    "airline": {
        "say": """
            which airlines fly from {city} to {city}
            which airline has the most flights [out of|into] {city}
            what airlines [serve|use|fly into|are based at] {airport}
            what airline is [the {clock} flight to {city}|flight number {number}|that]
            does {airline} [still |]have a [hub|lounge|desk|terminal] in {city}
            is {airline} [in the same alliance as|owned by|better than|merging with] {airline}
            which carriers offer [nonstop|overnight|seasonal] service to {city}
            who flies between {city} and {city} [in winter|on sundays|nonstop|overnight]
            do {airline} and {airline} share [a terminal|codes|a lounge|miles]
            what kind of [aircraft|planes|meals|seats] does {airline} use to {city}
            airlines from {city} to {city} [with|without] a stop
            which airline has the [best|worst] record for [lost luggage|delays|legroom|food]
            what is the phone number for {airline} in {city}
            is {airline} a [budget|full service|charter|regional] airline
            what terminal does {airline} use at {airport}
            i want to know which airlines stop in {city}
            who operates the [morning|evening|late] flight from {city} to {city}
            can i use my {airline} miles on {airline}
        """,
        "do": """
            list the airlines [that fly|flying] between {city} and {city}
            show me every carrier with [direct|daily|cheap] flights to {city}
            tell me which airline runs the {clock} flight to {city}
            name the airlines that serve {airport}
            give me the [contact details|safety record|baggage rules|loyalty tiers] of {airline}
            look up what [alliance|terminal|hub] {airline} belongs to
            compare {airline} with {airline} for [comfort|punctuality|legroom|meals]
        """,
        "number": "417 / 82 / 1039 / 269 / 705 / 3357 / 811 / 21 / 1291 / 633 / 459 / 928 / 2153 / 71 / 106",
    },
    "flight_time": {
        "say": """
            how long is the flight from {city} to {city}
            how long does it take to fly from {city} to {city}
            how many hours is it from {city} to {city} [by plane|nonstop|with one stop|on {airline}]
            what time does the [first|last|next|{airline}] flight [to|for] {city} leave
            when does the {airline} flight from {city} [land|arrive|get in|touch down]
            when do i have to board [the {airline} flight|my flight] to {city} {date}
            what's the [arrival|departure|boarding] time of the {city} flight {date}
            what are the departure times from {city} to {city} {date}
            flight time from {city} to {city} with {airline}
            is the flight to {city} longer than {hour} hours
            how late is the {clock} flight from {city}
            has the flight from {city} [landed|taken off|boarded|been delayed] yet
            how much time do i have between flights in {city}
            what is the shortest [connection|layover] in {city} on the way to {city}
            will i [arrive|be] in {city} before {clock} if i leave {city} {time}
            duration of the [nonstop|{airline}|overnight] flight between {city} and {city}
            what time is it in {city} when the {airline} flight arrives
            at what time does {relative} land in {city} {date}
        """,
        "do": """
            tell me how long the [flight|trip|journey] from {city} to {city} takes
            show me the [schedule|timetable|departure times] for {airline} flights to {city}
            give me the arrival time of the {airline} flight from {city}
            check if the [evening|morning|{clock}] flight to {city} is [on time|delayed|early]
            find out when the last plane leaves {city} for {city}
            look up the flying time between {city} and {city}
            list the [arrival|departure] times for flights from {city} to {city} {date}
        """,
    },
    "abbreviation": {
        "say": """
            what does [fare code|restriction code|booking code|the code] {code} [mean|stand for]
            what is {code} [short for|supposed to mean|on my {paper}|in airline terms]
            what does {code} mean [on my|on a|on the back of my] {paper}
            what's the difference between {code} and {code}
            what does code {code} [mean|stand for] on a {paper}
            i don't understand [the code|restriction] {code} on my {paper}
            which [airport|airline|city] [has the code|uses the letters] {iata}
            which airport does {iata} stand for
            is {iata} the code for {city}
            explain {code} [to me|please|in plain words|as it appears on a {paper}]
            meaning of [code|restriction|fare basis] {code} on my {airline} {paper}
            my {paper} says {code} [what is that|what does it mean|and i have no idea why]
            what's [fare class|booking class|fare basis] {code} on {airline}
            do {code} and {code} mean the same thing on a {paper}
            what is the airport code for {city}
            why is there {code} next to my [name|seat|flight number|meal] on the {paper}
            does {code} mean i can [change|cancel|upgrade|refund] my ticket
            what are the letters {iata} on my [suitcase|luggage tag|bag]
            is {code} a [meal code|fare code|seat type|kind of aircraft] on {airline}
        """,
        "do": """
            tell me what {code} [means|stands for] on a {paper}
            explain the [restriction|code|fare code] {code} on my {airline} {paper}
            spell out what is meant by {code} for {relative}
            look up the airport code {iata} and the one for {city}
            decode [fare basis|restriction|booking code] {code} on this {paper}
            give me the [three letter code|full name] for {city} and explain {code}
        """,
        "code": """
            ap 57 / ap 58 / ap 80 / ap 68 / q / qw / qx / y / yn / h / f / fn / b / bh / c / k / kn / m / v / w / ff
            sfo / d 10 / dc 10 / m 80 / 733 / 757 / 72s / ea / hp / co / as / dl / ua / nw / us / lh / ba / etd / eta
            s slash / sa / pnr / avml / vgml / lcml / wchr / unmr / ssss / ow / rt / nonref
        """,
        "iata": """
            bwi / ewr / ord / dfw / iad / dca / yyz / lhr / cdg / ams / cph / fra / muc / zrh / bcn / lis / ist / dxb
            hnd / nrt / icn / syd / mel / akl / gru / eze / bog / lim / mex / yul / sea / msp / phx / tpa / pit / bna
        """,
        "paper": """
            ticket / boarding pass / itinerary / receipt / booking confirmation / luggage tag / timetable / invoice
        """,
    },
    "cancel_booking": {
        "say": """
            i [need|want|have|would like] to cancel my [flight|trip|seat|reservation] to {city} {date}
            i have to cancel [the|our] hotel [room |]in {city} {date}
            how do i cancel [my booking|a reservation] with {airline}
            can i still cancel the [flight|hotel|rental car|tour|train] in {city} {date}
            what's the [fee|penalty|deadline] for canceling [my|our|a] {thing} {date}
            will i get [my money back|a full refund|a voucher] if i cancel the [{airline} flight|{city} trip] now
            my plans changed and i no longer need the {thing} [in {city}|{date}]
            we won't be [going|flying|traveling] to {city} {date} so drop the {thing}
            is it too late to cancel [my|our] {thing} {date}
            cancellation of booking {reference} [in the name of {person}|to {city}|{date}]
            booking {reference} needs to be canceled [today|right away|before {weekday}]
            {relative} is sick so we have to call off the trip to {city}
            i booked the wrong [date|city|hotel|flight] and want to undo it {date}
            do i have to pay if i cancel the {thing} [{date}|the night before]
            please can someone cancel the {thing} for {person}
            has my {airline} cancellation [gone through|been confirmed|been refunded]
            i never meant to book [two rooms|two seats|that flight] to {city} so cancel one
            what happens to my [miles|deposit|points] if i cancel the {thing}
        """,
        "do": """
            cancel my {airline} flight [to|from] {city} {date}
            cancel the {thing} [in {city}|for {date_noun}|under the name {person}]
            cancel [booking|reservation] {reference} [and refund my card|with {airline}|to {city}|for {relative}]
            delete [the|our] {thing} [in {city}|{date}] from my bookings
            remove [{relative}|one passenger] from the booking to {city} {date}
            get rid of the {thing} i made for {date_noun}
            undo the [hotel booking|car hire|reservation] in {city} and ask for a refund
            withdraw my request for a [room|seat|table] {date}
        """,
        "thing": """
            hotel room / table / rental car / reservation / dinner booking / tour / ticket / airport transfer / upgrade
            return flight / appointment / guided walk / boat trip / spa session / campsite
        """,
        "date_noun": "{weekday} / next {weekday} / tomorrow / {month} {ordinal} / the {ordinal} / the weekend",
    },
    "baggage": {
        "say": """
            how many [bags|suitcases|carry ons] can i take on {airline} to {city}
            what's the [weight limit|size limit|allowance] for [checked|carry on|hand] luggage on {airline}
            how much does {airline} charge for [an extra|a second|an overweight|an oversized] bag
            can i [bring|check|carry on] {gear} on the flight to {city}
            does {airline} allow {gear} in [hand luggage|the cabin|the hold]
            do i have to pay for {gear} with {airline}
            my [suitcase|backpack|luggage] did not arrive [in|at] {city} [what now|where do i report it|]
            my [bag|suitcase|stroller] was [damaged|lost|ripped|soaked] on the way to {city}
            where do i pick up my bags [at {airport}|when i change planes in {city}]
            will my luggage be [checked through|transferred|sent on] to {city}
            which carousel has the bags from [{city}|the {airline} flight]
            what size of [carry on|backpack|case] fits under the seat on {airline}
            who do i call about lost luggage at {airport}
            does {airline} let [infants|students|gold members|musicians] check {gear} for free
            baggage rules for {airline} flights to {city}
            how heavy can a suitcase be on the flight to {city}
            are [liquids|batteries|scissors|razors|lighters] allowed in hand luggage to {city}
            can {relative} take {gear} on board to {city}
        """,
        "do": """
            tell me the baggage [allowance|fees|rules] for {airline}
            add [a second|an extra|a heavy] bag to my booking to {city}
            track my [lost suitcase|missing bag|delayed luggage] from the {city} flight
            report [a lost|a broken|a missing] suitcase at {airport}
            check whether {airline} treats {gear} as [hand luggage|sports equipment|oversized]
            find out if {airline} takes {gear} to {city}
            register {gear} for [the|my] flight to {city} {date}
        """,
        "gear": """
            a surfboard / a guitar / skis / a bicycle / golf clubs / a stroller / a cello / a snowboard / my cat
            a small dog / a wheelchair / a car seat / a tent / fishing rods / a drone / a diving suit / a sewing machine
            a wedding dress / baby formula / a folding scooter
        """,
    },
    "play_music": {
        "say": """
            i want to hear {artist} [on {service}|right now|in the kitchen|while i cook]
            i'm in the mood for [some |]{genre} {moment}
            i feel like listening to {adjective} {genre} {moment}
            do you have any {genre} from the {decade}
            is there a {adjective} [song|album|track|tune] by {artist}
            could we have some {adjective} music {moment}
            any {genre} in the style of {artist} [on {service}|]
            {adjective} {genre} [on|from] {service} [at full volume|on shuffle|on repeat|]
            what's the [latest|best|newest|most popular] [album|song|single] by {artist}
            how about some {genre} [from|of] the {decade}
            something {adjective} by {artist} {moment}
            that {artist} [song|album] [again|on repeat|one more time] {moment}
            who sings this {adjective} {genre} song and can you play more
            the kids want to dance to {artist} [in the living room|before bed|again]
            let me hear the {top} {genre} [tracks|songs] on {service}
            we need {adjective} {genre} for [a dinner party|the drive|studying|yoga|a workout]
            nothing too {adjective} just {artist} {moment}
            it's time for {genre} from the {decade}
        """,
        "do": """
            play {artist} on {service}
            play [some |me some |a bit of |]{adjective} {genre} {moment}
            play the [latest|first|newest|best|top] [album|song|single|record] by {artist}
            play {genre} from the {decade} [on {service}|on shuffle|in the bedroom]
            put on some {genre} and then {artist}
            put on something {adjective} {moment}
            start my {genre} station on {service}
            shuffle [everything|all songs] by {artist} [on {service}|]
            skip this song and play {artist}
            open {service} and play {adjective} {genre}
            turn on [the radio|{service}] and find some {genre}
            switch from {genre} to {genre}
            queue the {top} {genre} songs of the {decade}
            repeat the last [song|track] by {artist}
        """,
        "moment": """
            while i cook / during dinner / before bed / for the drive home / in the background / while i run / tonight
            to wake me up / for the party / in the garden / on the kitchen speaker / as we clean / for a rainy evening
        """,
    },
    "add_to_playlist": {
        "say": """
            i [want|need|would like] this {tune} [on|in] my {list} playlist
            i want to [add|save] {artist} to my {list} playlist
            can {artist} [go|be put] on the {list} playlist
            can i have the new {artist} {tune} in {list}
            this {tune} [belongs|should go|has to go|would fit] in my {list} playlist
            my {list} playlist needs [more|some|another song by|the new single by] {artist}
            do i have {artist} on [my|our|the] {list} playlist already
            {artist} would be [perfect|great|a good addition] for my {list} playlist
            the {list} playlist is missing [this {tune}|{artist}|some {genre}]
            that {tune} by {artist} for my {list} list
            another {artist} {tune} for the {list} playlist
            one more {genre} {tune} to {list}
            i'd love to have {artist} in the {list} mix
            why did i never put {artist} on my {list} playlist
            don't forget to save this {tune} to {list}
            {relative} wants {artist} added to the {list} playlist
            we should have more {genre} in {list}
        """,
        "do": """
            add {artist} to my {list} playlist
            add [this|the current|another] {tune} to [my|the|our] {list} playlist
            add the {tune} by {artist} to {list}
            put [this|the last|that] {artist} {tune} [in|on|onto] my {list} playlist
            include [some|more|a little] {genre} in my {list} playlist
            save this {tune} to the playlist called {list}
            insert {artist} [at the top of|at the end of|into] my {list} playlist
            append the newest {artist} {tune} to {list}
            remove {artist} from {list} and add {artist}
            make a playlist called {list} and add {artist}
            move this {tune} from {list} to {list}
            attach the {genre} {tune} we just heard to {list}
            create a {list} playlist with {artist} and {artist}
            file this {tune} under {list}
        """,
        "tune": "song / track / album / tune / single / record / ballad / remix / cover / recording",
        "list": """
            road trip / chill hits / sunday brunch / workout / morning coffee / rainy day / metal classics / deep sleep
            summer barbecue / focus flow / indie gems / throwback thursday / dinner with friends / wedding dance
            piano at midnight / power walk / latin heat / study beats / country roads / garage punk / christmas
            evening commute / kids favorites / spring cleaning / women of soul / beach evening / old school rap
        """,
    },
    "weather": {
        "say": """
            what's the weather [like|going to be like] in {city} {day}
            what will the weather be in {city} {day}
            will it [rain|snow|be sunny|be windy|hail|freeze|be foggy|thunder|be humid] in {city} {day}
            is it [raining|snowing|warm|cold|windy|foggy|humid|freezing] in {city} [right now|at the moment|today]
            how [hot|cold|warm|chilly|windy|humid] will it [be|get] in {city} {day}
            do i need [an umbrella|a coat|sunscreen|boots|a sweater|gloves] in {city} {day}
            should i [bring|pack|wear] [a raincoat|a scarf|sunglasses|a hat|something warm] for {city} {day}
            what's the [temperature|forecast|humidity|pollen count|chance of rain|wind speed] in {city} {day}
            is there a [storm|blizzard|heat wave|tornado|hurricane|cold front] [coming|on its way] to {city}
            when will [the rain|the snow|this heat|the storm|the fog] [stop|end|clear up|let up] in {city}
            weather [forecast |]for {city} {day}
            what's it like outside in {city} {day}
            what is the forecast for {place} {day}
            is it [warm|dry|calm|clear] enough to [swim|camp|hike|sail|have a picnic] at {place} {day}
            how much [rain|snow|sunshine] did {city} get [yesterday|last night|last week|in {month}]
            when does the sun [rise|set] in {city} {day}
            are there any weather [warnings|alerts] for {place}
            will the [sky|roads|pass|lake] be [clear|frozen|icy|dry] near {place} {day}
            chance of [showers|thunderstorms|frost|sleet] near {place} {day}
        """,
        "do": """
            tell me the [weather|forecast] for {city} {day}
            give me the [five day|ten day|weekend|hourly|marine] forecast for {city}
            check if it will [rain|snow|freeze|be sunny] in {city} {day}
            warn me if [a storm|frost|heavy rain|snow|hail] is expected in {city} {day}
            show me the [radar|satellite map|temperature] for {place}
            compare the weather in {city} and {city} {day}
            look up [how cold it gets|the average rainfall|the water temperature] at {place} in {month}
        """,
        "place": """
            lake tahoe / yosemite / the grand canyon / loch ness / the black forest / the dolomites / big sur
            mount rainier / the isle of skye / death valley / niagara falls / the cotswolds / cape cod / the everglades
            bondi beach / the scottish highlands / lake garda / the blue ridge mountains / the faroe islands
        """,
    },
    "book_restaurant": {
        "say": """
            i [need|want|would like] a table for {party} at a {kind} {venue} in {city}
            i'd like to [eat|have dinner|have lunch|go out to eat] at a {kind} {venue} in {city} {date}
            we are {party} people and want {cuisine} food {date}
            is there a {venue} that serves {dish} [in|near|close to] {city}
            is there a table for {party} at {clock} {date}
            can we get a table [outside|by the window|on the terrace|near the fireplace] at a {venue} {date}
            a table for {party} at {clock} at [a|some|any] {cuisine} {venue}
            which {cuisine} {venue} in {city} has [a table|room] for {party} {date}
            table for {party} {date} somewhere that serves {dish}
            {relative} and i want to eat {dish} [in {city}|{date}|somewhere quiet]
            where can i [find|get|eat] {dish} in {city} {time}
            reservation for {party} at a {kind} {venue} {date}
            what's a good {cuisine} {venue} for a party of {party} in {city}
            my [parents|in laws|colleagues|kids|friends] are visiting and we need a {cuisine} {venue} {date}
            does any {kind} {venue} in {city} take bookings for {party}
            are there seats for {party} at the {cuisine} {venue} {time}
            i want to celebrate my [birthday|anniversary|promotion|graduation] at a {kind} {venue} in {city}
            lunch for {party} at a {venue} with {dish} in {city}
        """,
        "do": """
            book a table for {party} at a {kind} {venue} in {city}
            book [a restaurant|a {venue}|me a table] that serves {dish} in {city} {date}
            reserve a [quiet |]table for {party} {date} at {clock}
            make a reservation for {party} at a {cuisine} {venue} {time}
            find a {kind} {venue} for {party} that serves {dish}
            get us a table at [the best|a top rated|the nearest] {cuisine} {venue} {date}
            look for a {venue} with {dish} near {airport}
            move our dinner reservation to {clock} and make it {party} people
        """,
        "party": "two / three / four / five / six / seven / eight / nine / ten / twelve",
        "kind": """
            highly rated / vegan / cheap / family friendly / romantic / kosher / pet friendly / trendy / cozy
            smoke free
            michelin starred / gluten free / child friendly / seafood / halal / rooftop / candlelit / {cuisine}
        """,
        "venue": """
            restaurant / bistro / diner / pub / tavern / brasserie / steakhouse / pizzeria / tea house / wine bar
            gastropub / trattoria / cafe / taverna / osteria / food hall
        """,
    },
    "set_alarm": {
        "say": """
            i need [an alarm|a wake up call] [for|at] {clock} {date}
            i have to [get up|wake up|be up|be awake] at {clock} {date}
            what time is my [first|next|morning|weekday] alarm {date}
            are there any alarms [set|on] for {weekday}
            is my {clock} alarm [still on|set|switched off] for {weekday}
            how [many minutes|much time] [is|are] left on the {cook} timer
            {amount} minute timer for the {cook}
            alarm for {clock} [every|each] {weekday}
            another {amount} minutes on the {cook} timer
            the alarm on {weekday} should [go off|ring|sound] at {clock} instead
            can i have a [gentle|loud|vibrating|musical] alarm at {clock} {date}
            don't let me sleep past {clock} {date}
            give the {cook} {amount} minutes and start a timer
            i want to [nap|sleep|rest|meditate] for {amount} minutes so start the timer
            my alarm didn't [ring|go off|sound] at {clock} so set it again
            {clock} alarm for {weekday} and {weekday} with {genre}
            do i have an alarm before {clock} {date}
        """,
        "do": """
            set an alarm for {clock} {date}
            set [a|another] timer for {amount} minutes for the {cook}
            wake me up at {clock} {date}
            wake me {date} with [some |]{genre} at {clock}
            start a {amount} minute timer for the {cook}
            turn off the [alarm|alarms] for {weekday} [morning|]
            delete [my|the|every] {clock} alarm on {weekday}
            snooze the {clock} alarm for {amount} minutes
            change my {clock} alarm to {clock}
            cancel the {cook} timer and set one for {amount} minutes
            repeat the {clock} alarm [on weekdays|every {weekday}|every day but sunday]
            pause the {cook} timer for {amount} minutes
            buzz me in {amount} minutes to check the {cook}
        """,
        "amount": """
            five / eight / ten / twelve / fifteen / twenty / twenty five / thirty / forty / forty five / fifty / ninety
        """,
        "cook": """
            pasta / eggs / oven / laundry / pizza / rice / cake / tea / roast / bread / potatoes / dryer / sourdough
            dumplings / lentils / facial mask / chicken / sprinkler
        """,
    },
    "smart_home": {
        "say": """
            is the {room} {device} [on|still on|off|working]
            did i [leave the {room} {device} on|lock the {door}|close the {door}]
            who is [at|ringing at|standing outside] the {door}
            what's the temperature in the {room} [right now|at the moment|compared with the {room}]
            it's too [bright|dark|cold|warm|stuffy|hot|noisy] in the {room} {fix}
            the {room} is [freezing|boiling|pitch black|far too bright] {fix}
            i want the {room} at {degrees} degrees [by {clock}|before we get home|when i wake up]
            are all the [doors|windows|lights|blinds] [closed|shut|off|locked] [upstairs|downstairs|in the {room}]
            all the lights [off|on] in the {room} and the {room}
            {room} {device} [off|on] at {clock}
            how much [power|water|electricity] did the {appliance} use [today|this week|in {month}]
            has the {appliance} finished [its cycle|yet|running|in the {room}]
            can i see the {room} camera [on the tv|on my phone|from last night]
            we're going to bed so [turn everything off|lock up|dim the lights] [downstairs|in the {room}]
            the {door} should [lock|close|open] [at {clock}|when we leave|after {clock}]
            is anyone in the {room}
            how warm is the {room} set to be at {clock}
            when did the {door} last [open|close|unlock]
        """,
        "do": """
            turn [on|off] the {device} in the {room}
            turn the {room} {device} [up|down|off|on] [at {clock}|a little|completely]
            dim the {room} lights to {degrees} percent
            set the {room} [thermostat|heating|radiator] to {degrees} degrees
            lock the {door} [and turn on the alarm|behind me|at {clock}]
            start the {appliance} [at {clock}|now|in an hour|when rates are low]
            make the {room} lights [blue|red|warmer|softer|violet|brighter|green|amber]
            raise the temperature in the {room} by {hour} degrees
            show me [who is at|the camera by] the {door}
            run the {appliance} every {weekday} at {clock}
            close the [blinds|curtains|shutters|skylight] in the {room} {time}
            switch the {room} {device} to [night|eco|away|party|movie] mode
            send the robot vacuum to the {room}
        """,
        "fix": "so fix it / so do something / can you change that / adjust it please / what can we do",
        "room": """
            kitchen / living room / bedroom / hallway / garage / basement / bathroom / nursery / attic / guest room
            study / laundry room / conservatory / dining room / den / pantry / home office / sun room
        """,
        "device": """
            light / fan / heater / lamp / radiator / speaker / humidifier / air conditioner / projector / dehumidifier
            television / night light / ceiling light / air purifier
        """,
        "appliance": """
            dishwasher / washing machine / coffee maker / tumble dryer / robot vacuum / oven / lawn mower / kettle
            sprinkler / rice cooker / pool pump / car charger
        """,
        "door": "front door / back door / garage door / side gate / patio door / cellar door / porch door / main gate",
        "degrees": "sixteen / eighteen / nineteen / twenty / twenty one / twenty two / sixty / sixty five / seventy",
    },
    "directions": {
        "say": """
            how do i get to [the|the nearest] {spot} [from here|on foot|by bike|without tolls]
            how far is it [from {city} to {city}|to the {spot} {mode}]
            how long [will it take|does it take] to [drive|cycle|get|walk] to the {spot} {time}
            what's the [fastest|shortest|quickest|safest|most scenic] [way|route] to the {spot} [{mode}|{time}]
            where is the [nearest|closest|cheapest|next] {spot} [around here|in {city}|that is open {time}]
            which [exit|bus|subway line|road|bridge] do i take for the {spot} in {city}
            is there [much|any|heavy] traffic on the way to the {spot} {time}
            can i [walk|bike|drive] from the {spot} to the {spot}
            directions to the {spot} [in {city}|avoiding tolls|{mode}|avoiding highways]
            am i still on the right road to [{city}|the {spot}]
            where should i [park|turn|get off|stop] for the {spot} in {city}
            when will i get to the {spot} if i leave at {clock}
            i'm lost and need to find the {spot} [{mode}|before {clock}|in {city}]
            i want to avoid the [highway|tunnel|bridge|toll road] on the way to {city}
            are there any [road works|accidents|delays|closures] between {city} and {city}
            {mode} to the {spot} from the {spot}
            is the {spot} within walking distance of the {spot}
            which way to the {spot} from [here|the station|the {spot}]
        """,
        "do": """
            navigate to the [nearest |closest |]{spot} [avoiding tolls|in {city}|by the scenic route|]
            take me to the {spot} [in {city}|{mode}|by the quickest route]
            give me directions from the {spot} to the {spot}
            show me the way to the {spot} {mode}
            find a route to {city} [that avoids tolls|with a charging stop|along the coast|through {city}]
            map the [drive|bike ride|walk] from {city} to {city}
            add a stop at the {spot} on the way to {city}
            guide me around the [traffic|accident|closure|parade] near the {spot}
            tell me when to turn off for the {spot}
            send directions for the {spot} to {relative}
        """,
        "mode": "on foot / by bike / by car / by bus / by subway / by tram / by scooter",
        "spot": """
            gas station / pharmacy / hospital / train station / library / post office / stadium / museum
            hardware store
            city hall / supermarket / aquarium / harbor / zoo / botanical garden / university / bank / cathedral
            bakery
            vet / farmers market / ferry terminal / ice rink / public pool / charging station / police station / cinema
            embassy / skate park / garden center
        """,
    },
    "reminder": {
        "say": """
            i [must|have to|need to] remember to {chore} {date}
            i [always|keep] forget to {chore} so nudge me {date}
            don't let me forget to {chore} [{date}|at {clock}]
            what [do i have|reminders are there|is on my list] for {weekday} [morning|evening|night]
            what was i supposed to [do|buy|finish|tell {relative}] {date}
            did i set a reminder to {chore} [already|{date}|yet]
            do i have [a reminder|anything planned] for {month} {ordinal}
            reminder to {chore} {date}
            reminder for {clock} to {chore}
            is it {relative}'s birthday [{date}|in {month}|soon]
            when am i meant to {chore} [this week|next]
            how many reminders do i have [this week|for {month}|{date}]
            there should be a reminder to {chore} every {weekday}
            {relative} needs me to {chore} {date} [so note it|]
            note to self to {chore} {date}
            at {clock} i should {chore} so ping me
            can i get a reminder to call {person} {date}
            before i leave {date} i have to {chore}
        """,
        "do": """
            remind me to {chore} {date}
            remind me to {chore} [at {clock}|when i get home|when i leave work|before i go to bed]
            remind [me|us] {date} that [the rent is due|{relative} is coming|the bins go out|school is closed]
            set a reminder to {chore} [every|each|next] {weekday}
            create a reminder for {month} {ordinal} to {chore}
            delete the reminder [to|that says] {chore}
            push my reminder to {chore} back to {clock}
            ping me at {clock} to {chore}
            remind me to call {person} [back |]{date}
            remind me to text {relative} at {phone}
            list everything i have to do {date}
            mark the reminder to {chore} as done
            show my reminders for {weekday} [and {weekday}|afternoon]
        """,
        "chore": """
            water the plants / take my pills / pay the gas bill / call the plumber / feed the cat / walk the dog
            renew my passport / pick up the dry cleaning / take out the trash / buy birthday candles
            defrost the chicken
            return the library books / book the vet / charge the drill / send the invoice / order printer ink
            iron a shirt
            file my taxes / pick up {relative} / write to {relative} / clean the gutters / sign the school form
            cancel the gym membership / change the smoke alarm battery / send flowers to {relative} / prune the roses
            check the tire pressure / email the landlord / move the car / do my stretches / collect the parcel
            empty the dishwasher / thank {relative} / submit the timesheet / bring a cake to work
        """,
    },
    "rate_book": {
        "say": """
            i [want to|would like to] give {book} {stars}
            i'd give [this|the current|that|the last] {volume} {stars} out of [five|six]
            i [finally finished|just reread|gave up on] {book} so mark it {stars}
            {stars} for {book}
            {stars} out of [five|six] for this {adjective} {volume}
            this {volume} [deserves|is worth|gets] {stars} [from me|out of six|at most|no more and no less]
            the {volume} by {author} [deserves|gets|earns] {stars}
            my rating for {book} is {stars}
            can i change my rating of {book} to {stars}
            what did i rate {book} [last year|in {month}|when i first read it]
            how many stars did [i|{relative}] give {book}
            how do [readers|critics|other people] rate {book}
            {book} was {judgement}
            {relative} says {book} is only worth {stars}
            [to me |]the {volume} by {author} was {judgement}
            nothing above {stars} for such a {adjective} {volume}
            for me {book} is {stars} out of [five|six|ten]
            did i ever rate the {volume} by {author}
        """,
        "do": """
            rate {book} {stars} [out of five|out of six|]
            rate [this|the current|the last|the previous] {volume} {stars} [out of five|out of six]
            give {stars} to [this|the current|that|the previous] {volume}
            give {book} a rating of {stars}
            give the {volume} by {author} {stars}
            change my rating [of|for] {book} from {stars} to {stars}
            note that {book} was {judgement}
            put {stars} next to the {volume} by {author}
            save a review saying {book} was {praised}
            save a review saying the {volume} by {author} was {panned}
            record {stars} for [this|the] {adjective} {volume}
            remove my rating [of|for] {book}
            score {book} {stars}
        """,
        "stars": """
            zero stars / one star / two stars / three stars / four stars / five stars / a one / a two / a three / a four
            a five / six points / zero points / two points / three points / four points / five points
        """,
        "volume": "novel / book / textbook / essay / saga / chronicle / series / album / memoir / biography / thriller",
        "author": """
            agatha christie / haruki murakami / toni morrison / stephen king / jane austen / ursula le guin
            zadie smith
            elena ferrante / ernest hemingway / octavia butler / terry pratchett / margaret atwood / george orwell
            chimamanda adichie / kazuo ishiguro / virginia woolf / gabriel garcia marquez / donna tartt / john le carre
        """,
        "book": """
            the great gatsby / moby dick / pride and prejudice / dune / beloved / the hobbit / jane eyre / dracula
            emma
            wuthering heights / middlemarch / war and peace / frankenstein / little women / treasure island
            the odyssey
            the secret garden / a tale of two cities / the time machine / crime and punishment / great expectations
            the lighthouse keeper / a winter in tallinn / birds of the southern coast / the glass orchard
            salt and iron
            the clockmaker's sister / notes from a small kitchen / the river that forgot / midnight at platform nine
            a short history of tea / the last cartographer / letters to an absent king / the quiet algebra of stars
        """,
        "judgement": "{praised} and gets {high} / {panned} and gets {low}",
        "high": "four stars / five stars / four points / five points / top marks / a four / a five",
        "low": "zero stars / one star / two stars / one point / two points / a one / a two / no stars",
        "praised": """
            brilliant / a masterpiece / charming / gripping / a real page turner / surprisingly funny / touching
            worth every page / beautifully written / hard to put down
        """,
        "panned": """
            dull / unreadable / far too long / a letdown / overrated / forgettable / confusing / clumsy / a slog
            badly translated
        """,
    },
    "news": {
        "say": """
            what's [happening|new|going on] with {topic} [today|this week|this morning|right now]
            what's the latest [news |]on {topic} [from {source}|today|this morning|in {city}]
            what are the [top|main|biggest] headlines [on|about] {topic} {recent}
            any news [about|on] {topic} [from {city}|today|since {weekday}]
            did anything [important|big|interesting|unusual] happen with {topic} {recent}
            who won the [election|game|race|award|debate|final] in {city} [on {weekday}|yesterday|last night]
            what did {source} say about {topic} {recent}
            i want to [know|hear|read] more about {topic} {recent}
            i missed the [evening|morning|noon] news so what happened with {topic}
            [news on|a summary of|the story behind] {topic} from {source}
            latest [headlines|updates|reports] about {topic} [in {city}|{recent}]
            has there been an update on {topic} {recent}
            how did the [markets|polls|talks|trial] in {city} [go|end|turn out]
            is there breaking news from {city} [about {topic}|today|this morning]
            why is everyone talking about {topic} {recent}
            what are people saying about {topic} in {city}
            which story about {topic} is [trending|most read|on the front page] {recent}
            are there any good stories about {topic} {recent}
        """,
        "do": """
            read me the [headlines|latest news|front page] from {source}
            read the [top|latest|five biggest] stories about {topic}
            tell me the news about {topic} {recent}
            give me a [short|quick|two minute] [summary|briefing] on {topic} {recent}
            play the [morning|evening|hourly] news from {source}
            catch me up on {topic} {recent}
            find [an article|a podcast|a report|an interview] about {topic} in {city}
            notify me when there is news about {topic}
            skip the [sports|gossip|politics] and go to {topic}
            stop sending me alerts about {topic}
            show me what {source} wrote about {topic}
        """,
        "recent": "today / this morning / this week / lately / so far today / in the past few days",
        "topic": """
            politics / technology / science / the economy / local schools / the housing market / climate policy
            football
            women's tennis / space exploration / the strike / the elections / energy prices / the film festival / health
            the stock market / renewable power / artificial intelligence / the river flood / cycling / public transport
            the royal family / food safety / immigration / the wildfire / archaeology / cybersecurity / fashion week
        """,
        "source": """
            the bbc / reuters / the guardian / cnn / npr / the new york times / the washington post / le monde
            sky news
            der spiegel / the economist / al jazeera / the financial times / the local paper / bloomberg
            the irish times
        """,
    },
    "screening": {
        "say": """
            what [movies|films|animated movies] are [playing|showing] at {cinema} {date}
            what time is {film} [on|playing|showing] at {cinema}
            when does {film} [start|begin|end] at {cinema} {date}
            where can i [see|watch] {film} [near me|in {city}|{date}|with subtitles]
            is {film} [still playing|sold out|showing|out yet] in {city} {date}
            are there [any tickets|good seats|two seats together] for {film} {date}
            which {cinema_kind} in {city} is showing {film}
            i [want|would like] to see {film} at {cinema} {date}
            movie [times|schedule] for {film} in {city}
            {film} at {cinema} {date}
            is there a [matinee|late show|three d version|dubbed version] of {film} {date}
            how long is {film} and is it suitable for [children|teenagers|{relative}]
            who [directed|stars in|wrote the music for] {film}
            what's a good [comedy|thriller|horror movie|documentary|animated movie] to see {date}
            does {cinema} have {film} [in the original language|with subtitles|on the big screen] {date}
            what [comedies|thrillers|documentaries|westerns] are on at {cinema} {time}
            {relative} wants to watch {film} {date}
            how much are tickets for {film} at {cinema}
        """,
        "do": """
            find [showtimes|the schedule|tickets] for {film} at {cinema}
            show me the [movie schedule|film listings] for {cinema} {date}
            check when {film} is playing [in {city}|near {airport}|{date}]
            buy {seats} tickets for {film} {date}
            book {seats} seats in the [back|front|middle] row for {film} at {cinema}
            look for [animated|french|silent|classic|foreign] films at {cinema} {date}
            list the [movies|films] starting {time} at {cinema}
            tell me if {film} is worth seeing [with {relative}|in the cinema|]
            play the trailer for {film}
            get {seats} tickets to the [late|early|afternoon] screening of {film}
        """,
        "seats": "two / three / four / five / six",
        "cinema_kind": "movie theaters / cinemas / drive ins / art houses / multiplexes",
        "cinema": """
            the odeon / the amc / the regal / the plaza / the palace cinema / the rialto / the old mill theater
            cineworld
            the picture house / the film museum / the open air cinema / the grand rex / the closest cinema
            the harbor multiplex
        """,
        "film": """
            casablanca / jaws / the godfather / vertigo / amelie / alien / parasite / metropolis / the third man
            psycho
            spirited away / some like it hot / the lion king / singin' in the rain / back to the future / goodfellas
            a fistful of lemons / the paper lighthouse / seven winters / escape from dogger bank
            the beekeeper's secret
            moon over malmo / a kiss before dying / the last tram / nobody calls on sunday / thirteen umbrellas
            red delta
            the accidental astronaut / monsoon hotel / ghosts of the north road / my cousin the king
        """,
    },
    "recipe": {
        "say": """
            how do i [make|cook|prepare|bake|reheat] {dish} [for {party}|without {ingredient}|in the oven|from scratch]
            what can i [make|cook|do] with {ingredient} and {ingredient}
            how much {mass} goes into {dish} for {party}
            what's a [quick|simple|healthy|cheap|traditional] recipe for {dish} [with {ingredient}|]
            how long should i let {dish} [cook|rest|bake|simmer]
            what can i use instead of {ingredient} in {dish}
            do you put {ingredient} in [traditional|real|good] {dish}
            can i make {dish} [without {ingredient}|in a slow cooker|the day before|for a vegan]
            i have {ingredient} {ingredient} and an hour so what's for dinner
            recipe for {dish} [with|without] {ingredient}
            {cuisine} recipes with {ingredient} [for a weeknight|for {party}|in under an hour]
            i want to [cook|bake|try] something {cuisine} for {party} people
            how many calories are in {dish} [for {party}|without {ingredient}|]
            what goes [well|best] with {dish}
            what's the next step [for|in] the {dish} recipe
            at what temperature do i [roast|bake|fry|steam] {ingredient}
            can i freeze {dish} [or not|with {ingredient} in it|for later]
            something easy with {ingredient} for {party} people
        """,
        "do": """
            find [me a|an easy|a vegan|a low fat] recipe for {dish} [for {party}|with {ingredient}|without {ingredient}]
            show me how to [make|cook|season|serve] {dish}
            read me the [ingredients|next step|first step] for {dish}
            suggest a {cuisine} [dinner|lunch|starter|dessert|soup] with {ingredient}
            add {ingredient} and {ingredient} to my shopping list
            double the {dish} recipe so it serves {party}
            replace the {ingredient} in the {dish} with {ingredient}
            save this {dish} recipe [under favorites|for {weekday}|for the weekend]
            put [more |]{ingredient} on the shopping list for {weekday}
            plan a {cuisine} menu for {party} people {date}
            convert the {dish} recipe to [metric|cups|grams|four servings]
        """,
        "party": "two / three / four / five / six / eight / ten / twelve",
        "mass": """
            rice / ginger / butter / flour / garlic / honey / cream / yogurt / coconut milk / salt / sugar / olive oil
        """,
        "ingredient": """
            rice / lentils / spinach / ginger / coconut milk / chickpeas / eggs / butter / flour / garlic / tofu
            salmon
            mushrooms / cabbage / pumpkin / yogurt / basil / lemon / beans / bacon / leeks / quinoa / honey / parsley
            almonds / carrots / feta / chili / rosemary / cream / beetroot / ground beef / shrimp / mustard / cinnamon
        """,
    },
}

# Words that several intents share but the travel ones never need.
COMMON |= {
    "artist": """
        miles davis / nina simone / the beatles / aretha franklin / david bowie / radiohead / dolly parton / johnny cash
        bach / chopin / adele / beyonce / bob marley / fela kuti / bjork / daft punk / the rolling stones / prince
        ella fitzgerald / leonard cohen / tina turner / stevie wonder / taylor swift / kendrick lamar / iron maiden
        abba / edith piaf / santana / joni mitchell / massive attack / the clash / billie holiday / elvis presley
        carole king / celia cruz / pink floyd / the cure / etta james / sigur ros / mozart / vivaldi / shakira
    """,
    "genre": """
        jazz / blues / reggae / hip hop / techno / folk / country / opera / salsa / punk / soul / funk / heavy metal
        classical / ambient / bluegrass / gospel / disco / swing / bossa nova / electronica / soft rock / indie pop
    """,
    "adjective": """
        relaxing / upbeat / gloomy / old / romantic / loud / gentle / weird / cheerful / dreamy / slow / short
        dramatic
        nostalgic / catchy / peaceful / angry / fresh / sentimental / experimental
    """,
    "decade": "fifties / sixties / seventies / eighties / nineties / twenties / thirties / two thousands",
    "top": "top five / top ten / best twenty / top fifty / three best",
    "service": """
        spotify / youtube / deezer / apple music / pandora / last fm / grooveshark / tidal / soundcloud / bandcamp
    """,
    "cuisine": """
        italian / thai / mexican / indian / korean / greek / french / ethiopian / lebanese / japanese / turkish
        spanish
        vietnamese / moroccan / peruvian / chinese / danish / polish / brazilian / cajun / persian / georgian
    """,
    "dish": """
        sushi / tacos / pad thai / paella / ramen / lasagna / moussaka / goulash / risotto / falafel / fish pie
        gnocchi
        butter chicken / pierogi / ceviche / gumbo / french onion soup / dumplings / shakshuka / beef stew / cheesecake
        apple pie / pancakes / ratatouille / lamb tagine / clam chowder / fried rice / veggie burgers / tiramisu
        bibimbap / barbecue ribs / minestrone / crab cakes / baklava
    """,
}

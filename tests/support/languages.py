"""Ten pairs of sentences for each of four languages. A pair has the same meaning and few words in common."""

from __future__ import annotations

_ENGLISH = """
The train was late because of the snow. | Winter weather delayed the railway.
My doctor told me to drink less coffee. | The physician advised me to cut down on caffeine.
She bought a new house near the sea. | A home by the ocean is what she recently purchased.
The children are playing football in the garden. | Kids kick a ball around behind the building.
We have no money left for a holiday. | A vacation is too expensive for us now.
He lost his job when the factory closed. | Since the plant shut down he has been unemployed.
The soup tastes much too salty. | Somebody put a lot of salt into this broth.
My phone battery dies after an hour. | The mobile must be charged again every sixty minutes.
The teacher praised my daughter's essay. | My girl's composition was commended at school.
The neighbours make a lot of noise at night. | People next door are loud when we want to sleep.
"""
_GERMAN = """
Der Zug kam wegen des Schnees zu spät. | Winterwetter hat die Ankunft der Bahn verzögert.
Mein Arzt sagte mir, ich solle weniger Kaffee trinken. | Der Doktor riet dazu, Koffein zu meiden.
Sie hat ein neues Haus am Meer gekauft. | Vor Kurzem erwarb sie ein Heim an der Küste.
Die Kinder spielen im Garten Fußball. | Hinter dem Gebäude kicken die Kleinen einen Ball.
Wir haben kein Geld mehr für einen Urlaub. | Eine Reise ist uns im Moment zu teuer.
Er verlor seine Arbeit, als die Fabrik schloss. | Seit das Werk dichtgemacht hat, hat er keine Stelle.
Die Suppe schmeckt viel zu salzig. | Jemand hat die Brühe versalzen.
Der Akku meines Telefons ist nach einer Stunde leer. | Alle sechzig Minuten muss das Handy neu geladen werden.
Die Lehrerin lobte den Aufsatz meiner Tochter. | In der Schule bekam mein Mädchen Anerkennung für ihren Text.
Die Nachbarn machen nachts viel Lärm. | Die Leute nebenan sind laut, wenn wir schlafen wollen.
"""
_CHINESE = """
火车因为下雪晚点了。 | 冬天的天气耽误了列车到站。
医生叫我少喝咖啡。 | 大夫建议控制咖啡因的摄入。
她在海边买了一栋新房子。 | 不久前她购置了靠近大洋的住宅。
孩子们在花园里踢足球。 | 小朋友正在屋后玩球。
我们没有钱去度假了。 | 现在旅行对咱们来说太贵。
工厂关门后他失去了工作。 | 厂子倒闭，那个人至今失业。
这汤太咸了。 | 有人做饭时放了过多的盐。
我的手机电池一个小时就没电了。 | 每隔六十分钟就得给移动电话充电。
老师表扬了我女儿的作文。 | 我家姑娘写的文章在学校得到称赞。
邻居晚上很吵。 | 隔壁的人在大家想睡觉时声音很大。
"""
_ARABIC = """
تأخر القطار بسبب الثلج. | عطّل طقس الشتاء حركة السكك الحديدية.
نصحني طبيبي بشرب قهوة أقل. | قال لي الدكتور أن أخفف من الكافيين.
اشترت بيتا جديدا قرب البحر. | امتلكت مؤخرا منزلا على الساحل.
يلعب الأطفال كرة القدم في الحديقة. | الصغار يركضون وراء الطابة خلف الدار.
لم يبق لدينا مال للعطلة. | السفر مكلف جدا بالنسبة لنا الآن.
فقد عمله عندما أغلق المصنع. | أصبح عاطلا بعد توقف المعمل عن الإنتاج.
الحساء مالح جدا. | وضع أحدهم ملحا كثيرا في الشوربة.
تفرغ بطارية هاتفي بعد ساعة. | يجب شحن الجوال كل ستين دقيقة.
مدحت المعلمة مقال ابنتي. | نالت طفلتي الثناء في المدرسة على ما كتبته.
يحدث الجيران ضجيجا كثيرا في الليل. | الناس في الشقة المجاورة صاخبون حين نريد النوم.
"""


def _pairs(lines: str) -> list[tuple[str, str]]:
    return [(left, right) for left, right in (line.split(" | ") for line in lines.strip().splitlines())]


PARAPHRASES = {
    language: _pairs(lines)
    for language, lines in (("English", _ENGLISH), ("German", _GERMAN), ("Chinese", _CHINESE), ("Arabic", _ARABIC))
}
TEXTS = {language: [text for pair in pairs for text in pair] for language, pairs in PARAPHRASES.items()}

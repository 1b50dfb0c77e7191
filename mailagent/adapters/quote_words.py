"""The words by which mail programs introduce quoted, forwarded and signed text, in many languages.

Vocabulary only; `quote_marks` knows how the lines are built.
"""

from __future__ import annotations

# "On <date>, <name> wrote:" and its sisters; the verb may stand before or after the name.
WROTE = (
    "wrote writes said says schrieb geschrieben escribió escribio escrigué escrit escriure écrit ecrit "
    "escreveu scritto scrisse schreef geschreven skrev skriver skrifaði kirjoitti napisał napisał(a) "
    "napisała napisal napisala napsal napsala napsal(a) napísal napísala napísal(a) pisze írta scris "
    "написал написала написал(а) писал писала писал(а) пишет написав написала написав(ла) пише "
    "напиша написа напісаў έγραψε έγραψαν yazdı yazmış כתב כתבה كتب كتبت написао napisao napisao(la) "
    "kirjutas rakstīja rašė viết menulis menulisnya sulat เขียน लिखा idatzi"
).split()
# Written without spaces around them.
WROTE_UNSPACED = (
    "写道",
    "寫道",
    "写到",
    "のメッセージ",
    "書きました",
    "작성",
    "씀",
    "썼습니다",
    "เขียนว่า",
)
# Words with which such a line begins, where the line is broken over several.
ON = (
    "on at am le el il em op den dne dňa w na på pe a à at в о у 在 于 em no den dana gün tarihinde "
    "vào pada ngày em ke στις στο день mon tue wed thu fri sat sun"
).split()

FROM_LABELS = (
    "from von de da van från fra lähettäjä od от від feladó kimden gönderen από 发件人 寄件者 寄件人 差出人 "
    "送信者 보낸사람 мittente mittente expéditeur remitente afzender absender avsender avsändare nadawca "
    "odesílatel odosielateľ pošiljatelj expeditor expeditorul saatja nuo отправитель šalje מאת من dari từ "
    "จาก lähetetty"
).split()
FROM_PHRASES = ("보낸 사람", "от кого", "від кого", "de la", "no reply-to")
DATE_LABELS = (
    "date sent datum gesendet enviado enviada enviados envoyé inviato verzonden skickat skickades sendt "
    "dato data fecha päivämäärä päiväys wysłano дата отправлено надіслано відправлено dátum elküldve küldve "
    "tarih gönderildi gönderilme ημερομηνία dată trimis odesláno odoslané poslano kuupäev saadetud "
    "发送时间 发送日期 日期 日時 送信日時 送信日 날짜 보낸날짜 נשלח תאריך التاريخ تاريخ tanggal ngày วันที่ when"
).split()
DATE_PHRASES = ("enviado el", "enviado em", "보낸 날짜", "sent on", "gesendet am")
TO_LABELS = (
    "to an à a para pour per voor aan till til vastaanottaja do komu dla кому címzett kime alıcı προς "
    "收件人 收件者 宛先 받는사람 destinatario destinatário destinataire destinatarul către prima primatelj za "
    "pre saaja gavėjas kam אל إلى kepada đến ถึง cc kopie kopia kopio kopi copia copie kópia másolat bilgi "
    "копия копія dw udw bcc 抄送 副本 参照 참조"
).split()
TO_PHRASES = ("받는 사람", "másolatot kap", "cc kapja")
SUBJECT_LABELS = (
    "subject betreff asunto assunto objet sujet oggetto onderwerp ämne emne aihe temat předmět predmet "
    "тема tárgy konu θέμα subiect subiectul teema 主题 主旨 主題 件名 제목 נושא الموضوع موضوع subjek perihal "
    "chủ เรื่อง naslov zadeva"
).split()

# "-----Original Message-----": a reply, unless the subject says forwarded.
ORIGINAL_STEMS = (
    "original",
    "origin",
    "ursprüngl",
    "ursprung",
    "oorspronk",
    "oprindelig",
    "opprinnelig",
    "alkuperäi",
    "oryginaln",
    "původní",
    "pôvodn",
    "eredeti",
    "исходн",
    "оригинал",
    "оригінал",
    "первоначальн",
    "orijinal",
    "özgün",
    "原始",
    "元の",
    "원본",
    "αρχικό",
    "izvir",
    "izvor",
    "מקורי",
    "الأصل",
    "gốc",
    "previous message",
)
# "Begin forwarded message", between dashes or before a colon.
FORWARDED_STEMS = (
    "forwarded message",
    "forwarded mail",
    "forwarded email",
    "weitergeleitet",
    "réexpédié",
    "transféré",
    "transmis",
    "reenviad",
    "reencaminhad",
    "encaminhad",
    "inoltrat",
    "doorgestuurd",
    "vidarebefordra",
    "videresend",
    "edelleen",
    "välitetty",
    "przesłan",
    "przekazan",
    "przekazyw",
    "přepos",
    "přeposlan",
    "preposlan",
    "továbbított",
    "пересыл",
    "переслан",
    "переадрес",
    "перенаправлен",
    "пересила",
    "iletilen",
    "iletilmiş",
    "i̇leti",
    "ileti başlangıcı",
    "redirecționat",
    "redirectat",
    "transmis mai departe",
    "proslijeđen",
    "prosleđen",
    "posredovan",
    "edastatud",
    "persiųst",
    "pārsūtīt",
    "προωθημένο",
    "προώθηση",
    "转发",
    "轉寄",
    "轉發",
    "転送",
    "전달된",
    "הועברה",
    "מועברת",
    "معاد توجيه",
    "diteruskan",
    "chuyển tiếp",
    "ส่งต่อ",
)
# Subject prefixes by which programs mark a forward; "vs" is Danish and Norwegian.
FORWARD_PREFIXES = (
    "fwd fw wg tr rv enc vs vb vl pd i doorst továbbítás videresend ilt rif trs fs "
    "转发 轉寄 轉發 転送 전달 пересл пер"
).split()

# "Sent from my iPhone" without the device, and the names without the verb.
SENT_FROM = (
    "sent from",
    "sent via",
    "sent with",
    "sent using",
    "get outlook for",
    "gesendet von",
    "gesendet mit",
    "von meinem",
    "diese nachricht wurde von",
    "envoyé de",
    "envoyé depuis",
    "envoyé à partir",
    "enviado desde",
    "enviado do",
    "enviado de",
    "enviado a partir",
    "enviado con",
    "inviato da",
    "inviato dal",
    "verstuurd vanaf",
    "verzonden vanaf",
    "verzonden met",
    "skickat från",
    "sendt fra",
    "lähetetty",
    "wysłane z",
    "wysłano z",
    "odesláno z",
    "odoslané z",
    "отправлено с",
    "отправлено из",
    "надіслано з",
    "відправлено з",
    "trimis de pe",
    "elküldve",
    "στάλθηκε από",
    "poslano s",
    "发自我的",
    "發自我的",
    "從我的",
    "outlook für ios",
    "outlook pour ios",
    "outlook para ios",
)
# Without one of these it is a sentence: "Sent from Berlin on Monday".
DEVICES = (
    "iphone ipad ipod android samsung galaxy blackberry smartphone htc nokia lumia windows mobile phone "
    "handy telefon téléphone teléfono telefono telefoon pixel huawei xiaomi redmi oneplus motorola xperia "
    "outlook mail app device gerät appareil dispositivo tablet mac macbook proton yahoo gmail gmx web.de "
    "spark wireless t-mobile thunderbird 手机 スマートフォン"
).split()
SENT_FROM_ENDINGS = ("gönderildi", "から送信", "에서 보냄", "傳送", "gesendet", "gesendet.")

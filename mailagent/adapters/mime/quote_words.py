"""The words by which mail programs introduce quoted, forwarded and signed text, in many languages.

It has only words; `quote_marks` has the rules for the lines.
"""

from __future__ import annotations


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split("|"))


# The verbs of "On <date>, <name> wrote:", before or after the name.
WROTE = """
    wrote writes said says schrieb schreibt geschrieben escribió escribio escribe escrigué escrit escriure
    écrit ecrit écrivait escreveu escreve scritto scrisse scrive schreef schrijft geschreven geskryf skrev
    skriver skrifaði kirjoitti napisał napisała napisal napisala napsal napsala napísal napísala pisze
    pisał pisała írta scris scrie написал написала писал писала пишет написав пише напиша написа напісаў
    напісала έγραψε έγραψαν yazdı yazmış yazdi כתב כתבה كتب كتبت نوشت написао napisao kirjutas rakstīja
    rašė parašė viết menulis menulisnya sulat sinulat idatzi shkroi scríobh ysgrifennodd escribiu aliandika
""".split()
# Verbs without spaces around them, or with characters that a regular expression does not count as letters.
WROTE_UNSPACED = """
    写道 寫道 写到 のメッセージ のメール 書きました 작성 씀 썼습니다 เขียน लिखा
""".split()
# Words with which such a line begins.
ON = _phrases(
    """
    on | at | am | v | на | kuupäev | ในวันที่ | le | il | giorno | data | el | em | en | op | den | dne |
    dňa | dana | dnia | w | na | pe | la | о | у | 在 | 於 | 于 | no | dia | ngày | þann | o | mnamo |
    noong | vào | pada | tanggal | ke | στις | στο | ב-יום | בתאריך | في | در | gün | tarihinde | в | день |
    mon | tue | wed | thu | fri | sat | sun | in data | in a message dated
    """
)
FIRST_PERSON = """
    i ich wir we ik wij j'ai jag jeg vi já ja я мы me mir uns m'a m’a nous mij mi m'ha m’ha mig meg mnie
    мне
""".split()

FROM_LABELS = _phrases(
    """
    from | von | de | da | van | från | fra | frá | frå | lähettäjä | od | од | от | від | ад | feladó |
    kimden | gönderen | kimdən | από | αποστολέας | 发件人 | 發件人 | 寄件者 | 寄件人 | 差出人 | 送信者 |
    送信元 | 보낸사람 | 발신자 | 발신 | mittente | expéditeur | remitente | remetente | afzender | absender |
    avsender | avsendar | avsändare | afsender | nadawca | odesílatel | odosielateľ | pošiljatelj |
    пошиљалац | pošiljalac | expeditor | expeditorul | подател | кімнен | saatja | kellelt | nuo |
    siuntėjas | no | sūtītājs | отправитель | відправник | šalje | шаље | מאת | من | مرسل | از | فرستنده |
    dari | daripada | từ | จาก | प्रेषक | से | nork | igorlea | nga | minn | ó | remitent | o | 보낸 사람 |
    от кого | від кого | de la | người gửi | message from | oddi wrth | بھیجنے والا | থেকে | გამგზავნი | ումից
    """
)
DATE_LABELS = _phrases(
    """
    date | sent | datum | gesendet | enviado | enviada | enviados | enviat | envoyé | inviato | inviata |
    verzonden | skickat | skickades | sendt | send | dato | data | fecha | päivämäärä | päiväys | lähetetty |
    wysłano | wysłane | dátum | дата | датум | elküldve | küldve | tarih | gönderildi | gönderilme | tarix |
    göndərilib | ημερομηνία | στάλθηκε | εστάλη | απεστάλη | dată | trimis | odesláno | odoslané | poslano |
    poslato | послато | испратено | изпратено | отправлено | надіслано | відправлено | адпраўлена |
    жіберілді | күні | kuupäev | saadetud | nosūtīts | datums | išsiųsta | dagsetning | 发送时间 | 发送日期 |
    發送時間 | 寄件日期 | 寄件時間 | 日期 | 时间 | 時間 | 傳送時間 | 已傳送 | 傳送 | 日時 | 日付 | 送信日時 |
    送信日 | 送信 | 날짜 | 보낸날짜 | 전송 | 발송 | נשלח | תאריך | التاريخ | تاريخ | الإرسال | أُرسل |
    أرسلت | تاریخ | tanggal | dikirim | terkirim | tarikh | dihantar | ngày | gửi | วันที่ | ส่ง | ส่งเมื่อ |
    दिनांक | तारीख | bidalia | dërguar | seolta | mibgħut | gestuur | anfonwyd | when | enviado el |
    enviat el | dërguar më | gửi lúc | enviado em | enviada em | enviado o | 보낸 날짜 | 보낸 시간 |
    sent on | gesendet am | message du | envoyé le | inviato il | data invio | تم الإرسال | تاريخ الإرسال |
    ارسال شده | đã gửi | ngày gửi | भेजा गया | bidaltze data | datum odeslání | data wysłania | date sent |
    পাঠানো | გაგზავნილია | ուղարկվել է
    """
)
TO_LABELS = _phrases(
    """
    to | an | à | a | para | pour | per | voor | aan | till | til | vastaanottaja | do | до | komu | dla |
    кому | каму | címzett | kime | kimə | alıcı | προς | παραλήπτης | 收件人 | 收件者 | 宛先 | 받는사람 |
    수신 | 수신자 | destinatario | destinatari | destinatário | destinataire | destinatarul | către | prima |
    прима | primatelj | primalac | za | за | pre | saaja | kellele | adressaat | gavėjas | kam | saņēmējs |
    получатель | одержувач | получател | кімге | אל | إلى | الى | به | گیرنده | kepada | ke | đến | tới |
    ถึง | प्रति | को | प्राप्तकर्ता | nori | hartzailea | për | drejtuar | at | chuig | lil | cc | kopie |
    kopia | kopio | kopi | copia | copie | kópia | copi | kp | a/c | koopia | kopija | afrit | másolat |
    bilgi | surəti | копия | копие | копія | копија | κοιν. | κοινοποίηση | עותק | نسخة | رونوشت | dw | udw |
    bcc | 抄送 | 副本 | 密件抄送 | 参照 | 참조 | สำเนา | 받는 사람 | másolatot kap | cc kapja | per a |
    copie à | người nhận | sao y | প্রতি | მიმღები | ում
    """
)
SUBJECT_LABELS = _phrases(
    """
    subject | betreff | asunto | assunto | assumpte | objet | sujet | oggetto | onderwerp | ämne | emne |
    aihe | temat | tema | předmět | predmet | предмет | тема | tárgy | konu | mövzu | θέμα | subiect |
    subiectul | teema | tēma | temats | относно | тақырып | efni | gaia | subjekti | pwnc | ábhar | suġġett |
    主题 | 主題 | 主旨 | 标题 | 標題 | 件名 | 제목 | נושא | הנדון | الموضوع | موضوع | subjek | perihal |
    perkara | เรื่อง | ชื่อเรื่อง | หัวเรื่อง | विषय | naslov | zadeva | chủ đề | tiêu đề | বিষয় | თემა | թեմա
    """
)

# "-----Original Message-----": a reply, unless the subject says forwarded.
ORIGINAL_STEMS = _phrases(
    """
    origin | ursprüngl | ursprung | oorspronk | oprindelig | opprinnelig | alkuperäi | oryginaln | původní |
    pôvodn | eredeti | исходн | оригинал | оригінал | первоначальн | orijinal | özgün | 原始 | 元の | 원본 |
    αρχικό | izvir | izvor | מקורי | الأصل | gốc | 原邮件 | 原郵件 | 이전 메일 | nguyên bản | asli |
    previous message
    """
)
MESSAGE_STEMS = """
    messag mensa nachricht mail bericht meddel viesti wiadomo správ zpráv üzenet mesaj ileti порук сообщ
    письм повідом съобщ poruk sporoč μήνυμα 邮件 郵件 メッセージ 메일 הודעה الرسالة thư pesan
""".split()
# "Begin forwarded message", between dashes or before a colon.
FORWARDED_STEMS = _phrases(
    """
    forwarded message | forwarded mail | forwarded email | weitergeleitet | réexpédié | transféré |
    transmis | reenviad | encaminhad | inoltrat | doorgestuurd | vidarebefordra | videresend | edelleen |
    välitetty | przesłan | przekazan | przekazyw | přepos | preposlan | továbbított | пересыл | переслан |
    переадрес | перенаправлен | пересила | iletilen | iletilmiş | i̇leti | ileti başlangıcı | redirecționat |
    redirectat | proslijeđen | prosleđen | posredovan | edastatud | persiųst | pārsūtīt | προωθημένο |
    προώθηση | 转发 | 轉寄 | 轉發 | 転送 | 전달된 | הועברה | מועברת | معاد توجيه | diteruskan | chuyển tiếp |
    ส่งต่อ
    """
)
# Subject prefixes by which programs mark a forward; "vs" is Danish and Norwegian.
FORWARD_PREFIXES = """
    fwd fw wg tr rv enc vs vb vl pd i doorst továbbítás videresend ilt rif trs fs 转发 轉寄 轉發 転送 전달
    пересл пер
""".split()

REPLY_PREFIXES = """
    re ref aw antw antwort sv vá odp rif r rép res ynt atb bls отв 回复 回覆 答复 答覆 返信 답장
""".split()

# "Sent from my iPhone" without the device, and the names without the verb.
SENT_FROM = _phrases(
    """
    sent from | sent via | sent with | sent using | from my | get outlook for | gesendet von | gesendet mit |
    gesendet über | von meinem | von unterwegs | diese nachricht wurde von | diese mail wurde von |
    holen sie sich outlook | envoyé de | envoyé avec | envoyé à partir | obtenir outlook |
    télécharger outlook | enviado do | enviado de | enviado a partir | enviado con | enviado com |
    enviado pelo | enviado via | enviat des | obtener outlook | obter o outlook | obtenha o outlook |
    inviato da | inviato con | ottieni outlook | scarica outlook | verstuurd vanaf | verstuurd met |
    verzonden vanaf | verzonden vanuit | verzonden met | outlook voor ios | outlook voor android |
    skickat från | skickat med | hämta outlook | sendt fra | sendt med | hent outlook | få outlook |
    lähetetty | hanki outlook | wysłane z | wysłano z | wysłany z | pobierz outlook | odesláno z |
    odesláno pomocí | odoslané z | získat outlook | отправлено с | отправлено из | отправлено от |
    надіслано з | надіслано через | відправлено з | изпратено от | послато са | trimis de pe | trimis din |
    elküldve | küldve | στάλθηκε από | απεσταλμένο από | εστάλη από | poslano s | poslano iz | poslato sa |
    saadetud | nosūtīts no | išsiųsta iš | sent úr | נשלח מ | أرسل من | مرسل من | تم الإرسال من | ส่งจาก |
    được gửi từ | đã gửi từ | gửi từ | dikirim dari | dihantar dari | 发自 | 發自 | 发送自 | 從我的 |
    获取 outlook | 取得 outlook | από το | yahoo mail: | outlook for ios | outlook for android |
    outlook für ios | outlook für android | outlook pour ios | outlook pour android | outlook para ios |
    outlook para android
    """
)
# Without one of these words, the line is a sentence, such as "Sent from Berlin on Monday".
DEVICES = """
    iphon ipad ipod android samsung galaxy blackberry htc nokia lumia windows phone handy telefon teléfono
    telefoon pixel huawei xiaomi redmi oneplus motorola xperia alcatel wiko oppo realme outlook mail app
    device gerät dispositivo tablet mac proton yahoo gmx web.de spark k-9 wireless thunderbird tutanota
    mobil mobitel móvil celular cellulare portable komórk puhelim телефон смартфон мобильн мобілн почт
    τηλέφωνο κινητό нокиа айфон アイフォン 手机 手機 スマートフォン הטלפון هاتف
""".split()
SENT_FROM_ENDINGS = _phrases(
    """
    gönderildi | から送信 | から送信されました | 에서 보냄 | 傳送 | gesendet | gesendet. | küldve |
    geschickt | verschickt | verschickt. | versendet | versendet. | lähetetty | 발송
    """
)
# Words of legal notices below mails.
LEGAL_STEMS = _phrases(
    """
    confidential | privileged | intended recipient | disclaimer | registered office | company number |
    vertraulich | handelsregister | amtsgericht | geschäftsführer | ust-id | confidentiel | siège social |
    confidencial | destinatário | riservat | d.lgs | vertrouwelijk | konfidentiell | fortrolig | poufn |
    důvěrn | bizalmas | confidențial | конфиденциальн | конфіденційн | gizli | εμπιστευτικ
    """
)

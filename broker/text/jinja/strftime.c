/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * strftime without a locale or a time zone, with glibc's extensions (%-d, %e, %P, ...), since
 * Python passes what it does not know on to the C library.
 */
#include "broker/text/jinja/run.h"

#include <stdio.h>

struct date {
    const struct mtr_jinja_time *t;
    int weekday; /* 0: Sunday */
    int yearday; /* from 0 */
};

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

static bool leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static struct date date_of(const struct mtr_jinja_time *t)
{
    static const int shift[] = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int year = t->year - (t->month < 3);
    return (struct date){
        .t = t,
        .weekday = (year + year / 4 - year / 100 + year / 400 + shift[t->month - 1] + t->day) % 7,
        .yearday = before[t->month - 1] + t->day - 1 + (leap(t->year) && t->month > 2),
    };
}

/* The year and week of ISO 8601. */
static int iso_week(const struct date *d, int *year)
{
    int monday = (d->weekday + 6) % 7;
    int week = (d->yearday - monday + 10) / 7;
    *year = d->t->year;
    if (week < 1) {
        int days_before = leap(d->t->year - 1) ? 366 : 365;
        *year -= 1;
        return (d->yearday + days_before - monday + 10) / 7;
    }
    /* Days from this week's Thursday on that are in the next year belong to it. */
    int last = leap(d->t->year) ? 366 : 365;
    if (d->yearday - monday + 3 >= last) {
        *year += 1;
        return 1;
    }
    return week;
}

/* How a number is written: width and what fills it ('0', ' ', or '-' for nothing). */
struct field {
    int value;
    int width;
    char fill;
};

static bool number(const struct date *d, char c, struct field *f)
{
    int iso_year, hour12 = d->t->hour % 12 ? d->t->hour % 12 : 12;
    int week = iso_week(d, &iso_year);
    switch (c) {
    case 'd':
        *f = (struct field){d->t->day, 2, '0'};
        break;
    case 'e':
        *f = (struct field){d->t->day, 2, ' '};
        break;
    case 'm':
        *f = (struct field){d->t->month, 2, '0'};
        break;
    case 'y':
        *f = (struct field){d->t->year % 100, 2, '0'};
        break;
    case 'Y':
        *f = (struct field){d->t->year, 1, '0'};
        break;
    case 'C':
        *f = (struct field){d->t->year / 100, 2, '0'};
        break;
    case 'H':
        *f = (struct field){d->t->hour, 2, '0'};
        break;
    case 'k':
        *f = (struct field){d->t->hour, 2, ' '};
        break;
    case 'I':
        *f = (struct field){hour12, 2, '0'};
        break;
    case 'l':
        *f = (struct field){hour12, 2, ' '};
        break;
    case 'M':
        *f = (struct field){d->t->minute, 2, '0'};
        break;
    case 'S':
        *f = (struct field){d->t->second, 2, '0'};
        break;
    case 'j':
        *f = (struct field){d->yearday + 1, 3, '0'};
        break;
    case 'u':
        *f = (struct field){d->weekday ? d->weekday : 7, 1, '0'};
        break;
    case 'w':
        *f = (struct field){d->weekday, 1, '0'};
        break;
    case 'U':
        *f = (struct field){(d->yearday + 7 - d->weekday) / 7, 2, '0'};
        break;
    case 'W':
        *f = (struct field){(d->yearday + 7 - (d->weekday + 6) % 7) / 7, 2, '0'};
        break;
    case 'V':
        *f = (struct field){week, 2, '0'};
        break;
    case 'G':
        *f = (struct field){iso_year, 1, '0'};
        break;
    case 'g':
        *f = (struct field){iso_year % 100, 2, '0'};
        break;
    default:
        return false;
    }
    return true;
}

/* Conversions that are words, or that stand for others; NULL when c is neither. */
static const char *words(const struct date *d, char c, char buf[16])
{
    switch (c) {
    case 'A':
        return days[d->weekday];
    case 'a':
        snprintf(buf, 16, "%.3s", days[d->weekday]);
        return buf;
    case 'B':
        return months[d->t->month - 1];
    case 'b':
    case 'h':
        snprintf(buf, 16, "%.3s", months[d->t->month - 1]);
        return buf;
    case 'p':
        return d->t->hour < 12 ? "AM" : "PM";
    case 'P':
        return d->t->hour < 12 ? "am" : "pm";
    case 'f':
        snprintf(buf, 16, "%06d", d->t->microsecond % 1000000);
        return buf;
    case 'n':
        return "\n";
    case 't':
        return "\t";
    case '%':
        return "%";
    case 'z':
    case 'Z':
        return "";
    default:
        return NULL;
    }
}

static const char *composed(char c)
{
    switch (c) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    default:
        return NULL;
    }
}

static bool put(struct mtr_jr *r, struct mtr_jtext *t, const struct date *d,
                const struct mtr_jv *format);

/* "%-d": the conversion at s[*at], which is behind the percent sign. */
static bool put_conversion(struct mtr_jr *r, struct mtr_jtext *t, const struct date *d,
                           struct mtr_str s, size_t *at, uint8_t taint)
{
    char buf[24], flag = '\0';
    const char *text;
    struct field f;
    size_t start = *at;
    while (*at < s.len && s.ptr[*at] && strchr("-_0^#", s.ptr[*at]))
        flag = s.ptr[(*at)++];
    if (*at < s.len && (s.ptr[*at] == 'E' || s.ptr[*at] == 'O'))
        ++*at; /* alternative forms of locales: as the plain ones */
    char c = *at < s.len ? s.ptr[(*at)++] : '\0';
    if (number(d, c, &f)) {
        char fill = flag == '-' ? '-' : flag == '_' ? ' ' : flag == '0' ? '0' : f.fill;
        const char *how = fill == '-' ? "%d" : fill == '0' ? "%0*d" : "%*d";
        if (fill == '-')
            snprintf(buf, sizeof buf, how, f.value);
        else
            snprintf(buf, sizeof buf, how, f.width, f.value);
        return mtr_jtext_put(r, t, buf, strlen(buf), taint);
    }
    if ((text = words(d, c, buf))) {
        struct mtr_jv v = mtr_jstr(mtr_str(text), taint);
        bool upper = flag == '^' || (flag == '#' && c != 'p');
        if ((upper && !mtr_jcase(r, &v, MTR_JCASE_UPPER, &v)) ||
            (flag == '#' && c == 'p' && !mtr_jcase(r, &v, MTR_JCASE_LOWER, &v)))
            return false;
        return mtr_jtext_value(r, t, &v);
    }
    if ((text = composed(c))) {
        struct mtr_jv v = mtr_jstr(mtr_str(text), taint);
        return put(r, t, d, &v);
    }
    return mtr_jtext_put(r, t, "%", 1, taint) &&
           mtr_jtext_put(r, t, s.ptr + start, *at - start, taint);
}

static bool put(struct mtr_jr *r, struct mtr_jtext *t, const struct date *d,
                const struct mtr_jv *format)
{
    struct mtr_str s = mtr_jbytes(format);
    for (size_t at = 0; at < s.len;) {
        size_t percent = mtr_str_find(s, MTR_STR("%"), at);
        size_t end = percent == SIZE_MAX ? s.len : percent;
        if (!mtr_jtext_slice(r, t, format, (uint32_t)at, (uint32_t)(end - at)))
            return false;
        if (percent == SIZE_MAX)
            break;
        at = percent + 1;
        if (!put_conversion(r, t, d, s, &at, mtr_jtaint_at(format, (uint32_t)percent)))
            return false;
    }
    return true;
}

bool mtr_jstrftime(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *format,
                   const struct mtr_jinja_time *now)
{
    if (now->month < 1 || now->month > 12 || now->day < 1 || now->day > 31 || now->year < 1)
        return mtr_jfail(r, MTR_INVALID, "strftime_now() was not told what time it is");
    struct date d = date_of(now);
    return put(r, t, &d, format);
}

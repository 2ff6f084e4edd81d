-- What was sent to which destination of alerts.
create table afl_alerts (
    destination text not null,
    subject text not null,
    sent {bigint} not null,
    primary key (destination, subject)
) {without_rowid};

create index afl_alerts_sent on afl_alerts (sent);

create schema if not exists state;

create schema if not exists resource;

create schema if not exists cardbox;

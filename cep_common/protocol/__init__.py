"""The wire protocol: all messages between processes and their codec. `cep_common/PROTOCOL.md` describes each."""

"""Teams, users and keys, by the methods that W&B's package has for them."""

import wandb

api = wandb.Api()
assert api.viewer.username == "alice" and "alice" in api.viewer.teams, api.viewer.teams

team = api.create_team("vision")
assert [member.username for member in team.members] == ["alice"] and team.members[0].admin
assert api.team("vision").name == "vision" and "vision" in wandb.Api().viewer.teams

made = api.create_user("bob.b@example.org")
assert made.username == "bob.b" and made.email == "bob.b@example.org" and not made.admin, made
again = api.create_user("bob.b@example.com", admin=True)
assert again.username == "bob.b-2" and again.admin, again
for query in ("bob.b", "bob.b@example.org", "BOB.B"):
    assert api.user(query).username == "bob.b", query
assert {user.username for user in api.users("example.com")} == {"bob.b-2"}
assert {user.username for user in api.users("bob")} == {"bob.b", "bob.b-2"}
assert api.user("nobody") is None

assert team.invite("bob.b") and team.invite("bob.b-2", admin=True)
assert not team.invite("bob.b"), "one who is there is not invited again"
assert not team.invite("nobody") and not team.invite("nobody@example.org")
account = team.create_service_account("nightly builds")
assert account.username == "vision-nightly-builds" and account.account_type == "SERVICE", account
members = {member.username: member for member in api.team("vision").members}
assert set(members) == {"alice", "bob.b", "bob.b-2", "vision-nightly-builds"}, members
assert members["bob.b-2"].admin and not members["bob.b"].admin
assert members["bob.b"].delete() and not members["bob.b"].delete()
assert "bob.b" not in {member.username for member in api.team("vision").members}
assert "vision" not in api.user("bob.b").teams and "vision" in api.user("bob.b-2").teams

# An older client signs in by the name of a key to make another, because W&B's server then named keys by themselves.
if wandb.__version__.startswith("0.19."):
    raise SystemExit

# A new key is told once, works at once, and not after it was deleted.
viewer = wandb.Api().viewer
secret = viewer.generate_api_key("laptop")
assert len(secret) == 40, secret
assert wandb.Api(api_key=secret).viewer.username == "alice"
viewer = wandb.Api().viewer
assert secret not in viewer.api_keys and "laptop" in viewer.api_keys, viewer.api_keys
assert viewer.delete_api_key("laptop")
assert "laptop" not in wandb.Api().viewer.api_keys

//! What a real cluster needs to run the operator, as objects for `kubectl apply`: definitions, roles, a Deployment.
